"""The lease's bookkeeping, when it may be renewed, the weighted order, and the envelope."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from taskyard.transport.envelope import due_in_microseconds, raise_delivery_count
from taskyard.transport.keys import (
    STEPS_BY_URGENCY,
    LeaseKeys,
    keys_by_urgency,
    priority_of_step,
    step_for_priority,
)
from taskyard.transport.lease import UNLEASED, Lease
from taskyard.transport.order import Weighted
from taskyard.transport.process_leases import RECONNECT_PATIENCE_SECONDS, ProcessLeases


class FixedClock:
    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


def filled(*messages: bytes) -> Lease:
    lease = Lease()
    lease.next_epoch()
    for message in messages:
        lease.receive("jobs", message, is_leased=True)
    return lease


def test_tags_follow_the_order_of_receipt_and_unleased_messages_take_none() -> None:
    lease = filled(b"a")
    lease.receive("replies", b"x", is_leased=False)
    lease.receive("jobs", b"b", is_leased=True)

    assert list(lease.inbox) == [(1, "jobs", b"a"), (UNLEASED, "replies", b"x"), (2, "jobs", b"b")]
    assert lease.held == {1, 2}


def test_acknowledgement_of_what_is_not_held_is_refused() -> None:
    lease = filled(b"a")

    assert lease.ack(1)
    assert not lease.ack(1)
    assert not lease.give_back(1, to_front=True)
    assert lease.take_acks() == [1]


def test_failed_acknowledgements_are_sent_again() -> None:
    lease = filled(b"a", b"b")
    lease.ack(1)
    sent = lease.take_acks()
    lease.ack(2)

    lease.unsent_acks(sent)

    assert sorted(lease.take_acks()) == [1, 2]


def test_resume_finds_unseen_and_lost_messages() -> None:
    lease = filled(b"a", b"b", b"c")
    lease.ack(1)
    lease.take_acks()

    unseen, lost = lease.resume([1, 2, 4, 5])

    # 1 was acknowledged, and its acknowledgement may not have arrived: it is not run again, but sent again
    assert (unseen, lost) == ([4, 5], [3])
    assert lease.take_acks() == [1]
    assert lease.next_tag == 6
    assert [tag for tag, *_ in lease.inbox] == [1, 2]


def test_each_connection_has_an_id_of_its_own() -> None:
    lease = filled()
    first = lease.id

    lease.next_epoch()

    assert lease.id != first
    assert lease.earlier_ids == [first]


def test_lost_lease_keeps_only_what_was_never_leased() -> None:
    lease = filled(b"a", b"b")
    lease.receive("replies", b"x", is_leased=False)
    lease.ack(1)

    assert lease.lose() == [1, 2]

    assert list(lease.inbox) == [(UNLEASED, "replies", b"x")]
    assert lease.is_empty


@pytest.mark.parametrize(
    ("silent_seconds", "changes", "expected"),
    [
        (59, {"has_event_loop": True}, True),
        (61, {"has_event_loop": True}, False),
        (3599, {}, True),
        (3601, {}, False),
        (3599, {"has_event_loop": True, "is_stopping": True}, True),
        (61, {"has_event_loop": True, "is_adrift": True}, True),
        (RECONNECT_PATIENCE_SECONDS + 1, {"has_event_loop": True, "is_adrift": True}, False),
        (61, {"has_event_loop": True, "delivering_since": 0.0}, True),
        (61, {"has_event_loop": True, "delivering_since": 0.0, "runs_inline": lambda: False}, False),
        (9999, {"has_event_loop": True, "runs_inline": lambda: True}, True),
    ],
)
def test_hung_loop_is_not_renewed_for_long(
    silent_seconds: float, changes: dict[str, object], expected: bool
) -> None:
    leases = ProcessLeases(LeaseKeys(), ttl_seconds=10, hang_seconds=60, busy_seconds=3600)
    lease, now = Lease(), time.monotonic()
    lease.beat_at = now - silent_seconds
    for name, value in changes.items():
        setattr(lease if hasattr(lease, name) else leases, name, value)

    assert leases.may_renew(lease, now) is expected


def test_nobody_is_reaped_right_after_the_broker_was_away() -> None:
    leases = ProcessLeases(LeaseKeys(), ttl_seconds=10, hang_seconds=60, busy_seconds=3600)
    lease = filled()
    lease.next_epoch()
    lease.renewed_at = time.monotonic() - 6

    leases.renewed(lease)

    assert leases.reap_not_before == pytest.approx(time.monotonic() + 10, abs=1)


def test_weighted_order_shares_among_the_queues_that_have_messages() -> None:
    order = Weighted({"a": 3, "b": 1})
    taken = []
    for _ in range(80):
        queue = next(name for name in order.arrange(["empty", "a", "b"]) if name != "empty")
        order.served(queue, 2)
        taken.append(queue)

    assert (taken.count("a"), taken.count("b")) == (60, 20)


def test_idle_queue_saves_nothing_up() -> None:
    order = Weighted({"a": 1, "b": 1})
    for _ in range(50):
        order.served("a", 1)

    first = []
    for _ in range(10):
        first.append(order.arrange(["a", "b"])[0])
        order.served(first[-1], 1)

    assert first.count("b") <= 6


def test_every_priority_has_a_list_of_its_own_and_back() -> None:
    assert [priority_of_step(step) for step in STEPS_BY_URGENCY] == list(range(9, -1, -1))
    assert all(priority_of_step(step_for_priority(priority)) == priority for priority in range(10))
    assert keys_by_urgency("q")[4] == "q"


@pytest.mark.parametrize(
    ("eta", "expected"),
    [
        (None, None),
        ("not a time", None),
        ("2029-12-31T00:00:00+00:00", None),
        ("2030-01-01T00:00:00.900000+00:00", None),
        ("2030-01-01T00:00:02", int(datetime(2030, 1, 1, 0, 0, 2, tzinfo=UTC).timestamp() * 1e6)),
        (
            datetime(2030, 1, 1, 0, 0, 2, tzinfo=UTC) + timedelta(microseconds=7),
            int(datetime(2030, 1, 1, 0, 0, 2, tzinfo=UTC).timestamp() * 1e6) + 7,
        ),
    ],
)
def test_due_time(eta: object, expected: int | None) -> None:
    assert due_in_microseconds({"headers": {"eta": eta}}, clock=FixedClock()) == expected


def test_delivery_count_rises_and_leaves_the_rest_as_it_was() -> None:
    message = {
        "body": "e30=",
        "headers": {"id": "7", "when": {"__type__": "datetime", "__value__": "2030-01-01"}},
        "properties": {"delivery_info": {"exchange": "", "routing_key": "jobs"}, "delivery_tag": "t"},
    }

    once, first = raise_delivery_count(json.dumps(message).encode())
    twice, second = raise_delivery_count(once)

    assert (first, second) == (1, 2)
    decoded = json.loads(twice)
    assert decoded["headers"] == message["headers"] | {"x-delivery-count": 2, "redelivered": True}
    assert decoded["properties"]["delivery_info"]["redelivered"] is True
    assert raise_delivery_count(b"\xff") == (b"\xff", 0)
