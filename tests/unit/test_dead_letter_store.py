"""The store takes every failure, once, whatever its message holds: what it refused would come back."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
import logging
import math
import uuid

import pytest
from django.core.management import call_command
from django.db import IntegrityError, OperationalError, connection
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskyard.deadletters import service
from taskyard.deadletters.contents import message_of
from taskyard.deadletters.models import DeadLetter
from taskyard.tasks import failures
from taskyard.tasks.failures import Failure

pytestmark = pytest.mark.django_db

FAILURE = Failure(
    task_name="orders.charge",
    task_id="id-1",
    reason="retries_exhausted",
    queue="critical",
    priority=9,
    args=(7, "x"),
    kwargs={"a": [1, None, True, 0.5]},
    headers={"tenant": "acme"},
    correlation_id="corr-1",
    retries=3,
    error="ValueError: boom",
    traceback="Traceback ...",
)


def stored(**changes) -> DeadLetter:
    """Record a failure and read its row back from the database."""
    service.record(dataclasses.replace(FAILURE, **changes))
    return DeadLetter.objects.get()


def test_everything_that_is_needed_to_run_it_again_is_kept():
    before = timezone.now()

    row = stored()

    assert (row.task_name, row.task_id, row.reason) == ("orders.charge", "id-1", "retries_exhausted")
    assert (row.queue, row.priority, row.retries) == ("critical", 9, 3)
    assert row.args == [7, "x"]
    assert row.kwargs == {"a": [1, None, True, 0.5]}
    assert row.headers == {"tenant": "acme"}
    assert (row.correlation_id, row.error, row.traceback) == ("corr-1", "ValueError: boom", "Traceback ...")
    assert before <= row.created_at <= timezone.now()
    assert str(row) == "orders.charge (retries exhausted)"


def test_the_same_failure_twice_is_one_row():
    for _ in range(3):
        service.record(FAILURE)

    assert DeadLetter.objects.count() == 1


def test_the_first_report_stays():
    service.record(FAILURE)
    service.record(dataclasses.replace(FAILURE, error="another text"))

    assert DeadLetter.objects.get().error == "ValueError: boom"


@pytest.mark.parametrize("change", [{"retries": 4}, {"reason": "time_limit"}, {"task_id": "id-2"}])
def test_another_end_of_it_is_another_row(change):
    service.record(FAILURE)
    service.record(dataclasses.replace(FAILURE, **change))

    assert DeadLetter.objects.count() == 2


def test_messages_without_an_id_are_each_a_row():
    for _ in range(2):
        service.record(dataclasses.replace(FAILURE, task_id=""))

    assert DeadLetter.objects.count() == 2


def test_the_database_itself_refuses_a_second_row():
    row = stored()
    row.pk = None

    with pytest.raises(IntegrityError):
        row.save()


def test_values_are_kept_as_they_go_over_the_wire():
    row = stored(
        args=(
            datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
            uuid.UUID(int=7),
            decimal.Decimal("1.10"),
        )
    )

    assert [value["__type__"] for value in row.args] == ["datetime", "uuid", "decimal"]
    assert row.args[2]["__value__"] == "1.10"


HOSTILE_TEXTS = [
    "\x00",
    "a\x00b",
    "\ud800",
    "\udfff\ud800",
    "😀\x00",
    "\\u0000",
    "\u2028\x1b[31m",
    "'; DROP TABLE x; --",
]


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_text_that_a_database_refuses_is_stored_in_every_field(text):
    row = stored(
        task_name=text,
        task_id=text,
        queue=text,
        correlation_id=text,
        error=text,
        traceback=text,
        raw=text,
        args=[text, {text: text}],
        kwargs={text: [text]},
        headers={text: text},
    )

    shown = [
        row.task_name,
        row.task_id,
        row.queue,
        row.error,
        json.dumps(row.args, ensure_ascii=False),
    ]
    assert all("\x00" not in value for value in shown)
    assert all(value.encode() for value in shown)
    assert message_of(row) == text


@pytest.mark.parametrize("text", ["ä€😀", "\\u0000", "\\\\u0000", "\t\n", "\\ud800"])
def test_text_that_a_database_takes_is_kept_as_it_is(text):
    row = stored(args=[text], error=text, headers={text: 1})

    assert row.args == [text]
    assert row.error == text
    assert row.headers == {text: 1}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_json_are_stored_as_text(number):
    row = stored(args=[number], kwargs={"a": {"b": number}})

    assert isinstance(row.args[0], str)
    assert isinstance(row.kwargs["a"]["b"], str)


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


def contains_itself() -> list:
    box: list = []
    box.append(box)
    return box


@pytest.mark.parametrize(
    "value",
    [
        Opaque(),
        Broken(),
        b"\xff\x00bytes",
        {1, 2},
        {("a", "b"): 1},
        {1: "a"},
        contains_itself(),
        10**5000,
        object,
        ValueError("x"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_headers_and_arguments_that_are_not_json_are_stored(value):
    service.record(
        dataclasses.replace(
            FAILURE, headers={"x": value, "tenant": "acme"}, args=[value], kwargs={"k": value}
        )
    )

    row = DeadLetter.objects.get()
    assert row.error == "ValueError: boom"
    assert "acme" in json.dumps(row.headers)


@pytest.mark.parametrize("priority", ["9", 10**9, -5, 2.5, None, [9], True])
def test_any_priority_of_a_message_is_stored(priority):
    assert stored(priority=priority).priority in (None, True)


@pytest.mark.parametrize("retries", ["3", -1, 10**12, None, 2.5])
def test_any_number_of_retries_of_a_message_is_stored(retries):
    assert stored(retries=retries).retries == 0


def test_names_longer_than_their_columns_are_cut():
    row = stored(task_name="t" * 1000, task_id="i" * 1000, queue="q" * 1000, correlation_id="c" * 1000)

    assert {len(value) for value in (row.task_name, row.task_id, row.queue, row.correlation_id)} == {255}


def test_a_cut_id_is_still_one_row():
    for _ in range(2):
        service.record(dataclasses.replace(FAILURE, task_id="i" * 1000))

    assert DeadLetter.objects.count() == 1


def test_huge_text_is_kept_as_far_as_it_says_what_it_is():
    huge = "x" * (2 * service.TEXT_LIMIT)

    row = stored(error="start" + huge, traceback=huge + "end")

    assert len(row.error) == len(row.traceback) == service.TEXT_LIMIT
    assert row.error.startswith("start")
    assert row.traceback.endswith("end")


@given(
    text=st.text(alphabet=st.characters(exclude_categories=()), max_size=20),
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(st.characters(exclude_categories=()))
        | st.binary(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_message_holds_is_stored(text, value):
    DeadLetter.objects.all().delete()

    row = stored(task_name=text, task_id=text, error=text, raw=text, args=[value], headers={text: value})

    assert row.reason == "retries_exhausted"


class TestUndecodable:
    @pytest.mark.parametrize("raw", [b"not json", b"\xff\xfe\x00", b"", b"\x80\x04\x95pickle", b"{" * 10])
    def test_the_bytes_are_kept_as_text(self, raw):
        service.record_undecodable("high", raw, "JSONDecodeError: no")

        row = DeadLetter.objects.get()
        assert (row.reason, row.queue, row.error) == ("undecodable", "high", "JSONDecodeError: no")
        assert message_of(row) == raw.decode("utf-8", "backslashreplace")
        assert str(row) == "message (message that cannot be decoded)"

    def test_huge_ones_are_cut(self):
        service.record_undecodable("high", b"\xff" * (2 * service.TEXT_LIMIT), "no")

        assert len(message_of(DeadLetter.objects.get())) <= 4 * service.TEXT_LIMIT


class TestConnection:
    """A server may have closed the connection since the last task."""

    def test_it_is_written_on_a_new_connection(self, monkeypatch):
        writes = []

        def write():
            writes.append(1)
            if len(writes) == 1:
                raise OperationalError("server closed the connection unexpectedly")

        service._retry_once_on_stale_connection(write)

        assert writes == [1, 1]

    def test_a_database_that_stays_away_is_an_error(self):
        writes = []

        def write():
            writes.append(1)
            raise OperationalError("connection refused")

        with pytest.raises(OperationalError):
            service._retry_once_on_stale_connection(write)

        assert writes == [1, 1]


class TestTheWayThere:
    def test_the_app_has_made_it_the_store_of_the_base_task(self):
        failures.record(FAILURE)

        assert DeadLetter.objects.get().task_id == "id-1"

    def test_a_failure_is_logged_once_it_is_stored(self, caplog):
        with caplog.at_level(logging.INFO, "taskyard.dead_letter"):
            failures.record(FAILURE)

        (record,) = [record for record in caplog.records if record.name == "taskyard.dead_letter"]
        assert (
            record.msg.items()
            >= {
                "event": "dead letter",
                "task": "orders.charge",
                "task_id": "id-1",
                "queue": "critical",
                "reason": "retries_exhausted",
            }.items()
        )
        assert "args" not in record.msg

    def test_without_a_store_the_log_has_what_is_needed_to_run_it_again(self, caplog, recorded_failures):
        failures.set_sink(None)

        failures.record(FAILURE)

        (record,) = [record for record in caplog.records if record.name == "taskyard.dead_letter"]
        assert json.loads(record.msg["args"]) == [7, "x"]
        assert json.loads(record.msg["kwargs"]) == {"a": [1, None, True, 0.5]}
        assert "taskyard.deadletters" in record.msg["event"]


def test_the_migrations_match_the_model():
    call_command("makemigrations", "deadletters", check=True, dry_run=True, verbosity=0)


def test_what_is_filtered_by_has_an_index():
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, DeadLetter._meta.db_table)

    indexed = {
        tuple(constraint["columns"])
        for constraint in constraints.values()
        if constraint["index"] or constraint["unique"]
    }
    for name in ("task_id", "correlation_id", "replay_task_id"):
        assert any(columns[0] == name for columns in indexed if columns), name
    for name in ("id", "fingerprint", "queue", "task_name", "reason", "created_at"):
        assert any(columns[:2] == ("status", name) for columns in indexed), name
