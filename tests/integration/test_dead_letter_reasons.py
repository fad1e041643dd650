"""Every reason for which a task ends: one dead letter, and a replay that is the same call once more."""

from __future__ import annotations

import json

import pytest

from taskyard.clock import SYSTEM_CLOCK
from taskyard.transport.keys import key_for_step, step_for_priority
from taskyard.transport.queues import pause, resume
from tests.support.envelopes import envelope
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
QUEUE, PRIORITY, CORRELATION_ID = "high", 8, "request-7"
SETTINGS = {"MAX_WORKER_LOSSES": 0, "SNOOZE_MAX_AGE_SECONDS": 60}
LONG_AGO = SYSTEM_CLOCK.now().timestamp() - 24 * 3600

# Task, arguments, and the error that is kept; the reason is the key.
ENDINGS = {
    "retries_exhausted": ("probe.end_by_count", ["key"], "PlannedError: enough"),
    "age_exceeded": ("probe.end_by_age", ["key"], "PlannedError: still not there"),
    "not_retryable": ("probe.end_at_once", ["key"], "PlannedError: no use"),
    "time_limit": ("probe.overrun_with_limits", ["key"], "TimeLimitExceeded: "),
    "poison": ("probe.die", ["key"], "WorkerLostError: "),
    "snoozed_too_long": ("probe.end_by_snoozes", ["key"], "Snooze: "),
    "rejected": ("probe.end_by_reject", ["key"], "Reject: "),
    "wrong_signature": ("probe.record", ["key", "one too many"], "TypeError: "),
    "unknown_task": ("does.not.exist", ["key"], "No worker knows the task 'does.not.exist'"),
}
# Those that the console knows and whose arguments fit.
REPLAYED = sorted(set(ENDINGS) - {"wrong_signature", "unknown_task"})


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url, **SETTINGS)


@pytest.fixture(scope="module")
def worker(site):
    return site.start_worker(processes=2)


@pytest.fixture(scope="module")
def console(site):
    return site.start_console()


@pytest.fixture(scope="module")
def letters(site, worker):
    """The dead letter of each reason, after all of them have come."""
    ids = {}
    for reason, (task, args, _) in ENDINGS.items():
        headers = {"correlation_id": CORRELATION_ID, "tenant": reason}
        if reason == "age_exceeded":
            headers["first_published_at"] = LONG_AGO
        arguments = [f"{reason} {args[0]}", *args[1:]]
        result = site.app.send_task(
            task, arguments, queue=QUEUE, priority=PRIORITY, headers=headers, ignore_result=True
        )
        ids[reason] = result.id
    for task_id in ids.values():
        site.dead_letters.wait_for(task_id=task_id, timeout_seconds=60)
    return {reason: site.dead_letters.rows(task_id=task_id) for reason, task_id in ids.items()}


@pytest.fixture
def replayed(site, valkey, console):
    """Replay a letter while its queue is paused, and return the message that waits there."""
    client = valkey.client()
    key = key_for_step(QUEUE, step_for_priority(PRIORITY))

    def replay(row):
        pause(client, QUEUE, who="test", why="to look at the message")
        try:
            task_id = console.value("replay_dead_letter", letter_id=row["id"])
            (raw,) = client.lrange(key, 0, -1)
            client.delete(key)
        finally:
            resume(client, QUEUE)
        message = json.loads(raw)
        assert message["headers"]["id"] == task_id
        return message

    return replay


@pytest.mark.parametrize("reason", ENDINGS)
def test_each_end_is_one_dead_letter(letters, reason):
    (row,) = letters[reason]

    assert row["reason"] == reason
    assert row["error"].startswith(ENDINGS[reason][2])
    assert (row["queue"], row["priority"], row["correlation_id"]) == (QUEUE, PRIORITY, CORRELATION_ID)
    assert row["headers"]["tenant"] == reason
    assert row["status"] == "open"
    assert row["fingerprint"]


@pytest.mark.parametrize("reason", REPLAYED)
def test_its_replay_is_the_same_call_with_the_same_queue_priority_and_headers(letters, replayed, reason):
    (row,) = letters[reason]

    message = replayed(row)

    headers = message["headers"]
    assert headers["task"] == ENDINGS[reason][0]
    assert message["properties"]["priority"] == PRIORITY
    assert message["properties"]["delivery_info"]["routing_key"] == QUEUE
    assert (headers["correlation_id"], headers["tenant"]) == (CORRELATION_ID, reason)
    assert headers["replay_of_dead_letter"] == row["id"]
    assert headers["id"] != row["task_id"]
    # with the old time, a policy with an age limit would end at the first failure
    assert headers["first_published_at"] == headers["published_at"] > LONG_AGO + 3600


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("wrong_signature", "does not fit the task: record() takes 2 positional arguments but 3 were given"),
        ("unknown_task", "the task 'does.not.exist' is not known here"),
    ],
)
def test_what_would_end_in_the_same_way_is_refused(letters, console, reason, message):
    (row,) = letters[reason]

    reply = console.run("replay_dead_letter", letter_id=row["id"])

    assert "DeadLetterError" in reply.error
    assert message in reply.message


def test_a_message_that_is_no_call_cannot_be_replayed(site, worker, console, valkey):
    text = json.dumps(envelope("body", body="this is not JSON"))
    valkey.client().lpush("default", text, b"garbage")

    rows = site.dead_letters.wait_for(count=2, reason="undecodable")

    for row in rows:
        reply = console.run("replay_dead_letter", letter_id=row["id"])
        assert "DeadLetterError" in reply.error
        assert f"Dead letter {row['id']} cannot be replayed: its message" in reply.message


def test_a_replay_that_fails_again_is_a_dead_letter_of_its_own_that_names_the_first(site, worker, console):
    first_id = site.tasks["probe.fail"].delay("fails twice", "value_error").id
    (first,) = site.dead_letters.wait_for(task_id=first_id)

    second_id = console.value("replay_dead_letter", letter_id=first["id"])

    (second,) = site.dead_letters.wait_for(task_id=second_id)
    (first,) = site.dead_letters.rows(task_id=first_id)
    assert (first["status"], first["replay_task_id"]) == ("replayed", second_id)
    assert second["replay_of_id"] == first["id"]
    assert second["fingerprint"] == first["fingerprint"]
    assert second["status"] == "open"
    assert len(site.history.starts("fails twice")) == 2


def test_a_message_of_an_unknown_task_is_replayed_once_its_code_is_deployed(valkey, new_site):
    """As after a deployment that published before its workers were there."""
    site = new_site(valkey.url, KEY_PREFIX="late-")
    old_worker = site.start_worker()
    headers = {"tenant": "acme", "correlation_id": CORRELATION_ID}
    site.app.send_task("probe.late_code", ["late code"], queue=QUEUE, headers=headers)
    (row,) = site.dead_letters.wait_for(task_name="probe.late_code")
    assert row["reason"] == "unknown_task"
    old_worker.terminate()
    old_worker.wait_for_exit(30)
    site.environment["PROBE_LATE_CODE"] = "1"
    site.start_worker()

    site.start_console().value("replay_dead_letter", letter_id=row["id"])

    (run,) = site.history.wait_for_end("late code")
    assert (run["queue"], run["headers"]["tenant"]) == (QUEUE, "acme")
    assert run["correlation_id"] == CORRELATION_ID


def test_what_follows_a_task_runs_after_its_replay(site, worker, console):
    """A chain that broke off goes on where it did."""
    from celery import chain

    marker = site.directory / "mended"
    steps = chain(
        site.tasks["probe.fail_until"].si("broken step", str(marker)),
        site.tasks["probe.record"].si("next step"),
    )
    result = steps.apply_async()
    (row,) = site.dead_letters.wait_for(task_id=result.parent.id)
    assert site.history.starts("next step") == []
    marker.touch()

    console.value("replay_dead_letter", letter_id=row["id"])

    assert len(site.history.wait_for_end("next step")) == 1
    wait_until(
        lambda: site.history.ends("broken step"), timeout_seconds=10, what="the replayed step has ended"
    )
