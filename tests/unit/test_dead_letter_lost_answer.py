"""A replay whose answer is lost: the broker may have taken the message, and nobody knows."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from datetime import timedelta

import pytest

from taskyard.deadletters.models import DeadLetter, DeadLetterAction
from taskyard.deadletters.replay import recover_replays, replay
from taskyard.errors import DeadLetterNotOpenError, DeadLetterUnconfirmedError
from tests.support.letters import SECRET, counted, letter, unreachable_broker

pytestmark = pytest.mark.usefixtures("letter_app")


def age(row):
    """Let the replay have been begun a while ago."""
    DeadLetter.objects.filter(pk=row.pk).update(resolved_at=row.resolved_at - timedelta(seconds=61))


@pytest.fixture
def mute_broker(letter_app, settings):
    """Return what has the broker take everything and answer nothing."""

    @contextmanager
    def mute():
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            unreachable_broker(settings, port=server.getsockname()[1]),
        ):
            yield

    return mute


def unconfirmed(mute_broker, **edited):
    row = letter(SECRET)
    with mute_broker(), pytest.raises(DeadLetterUnconfirmedError) as caught:
        replay(row.pk, actor="ann", **edited)
    row.refresh_from_db()
    return row, str(caught.value)


def test_it_is_not_open_and_the_error_says_that_it_may_run(mute_broker):
    row, error = unconfirmed(mute_broker, args=[8])

    assert row.status == "replaying"
    assert f"Dead letter {row.pk} may have been sent as task {row.replay_task_id}: look for it" in error
    assert "was not" not in error
    assert counted() == {"replaying": 1}


def test_the_audit_has_it_already(mute_broker):
    row, _ = unconfirmed(mute_broker, args=[8])

    action = DeadLetterAction.objects.get()
    assert (action.kind, action.actor) == ("edit_and_replay", "ann")
    assert action.detail["task_id"] == row.replay_task_id
    assert action.detail["edited"] == ["args"]
    assert action.detail["sent"] == "not known yet"


def test_the_next_replay_is_the_same_call_under_the_same_id(mute_broker, take_messages):
    row, _ = unconfirmed(mute_broker, args=[8], kwargs={"card": "4222"})
    with pytest.raises(DeadLetterNotOpenError, match="sends the same call under the same id"):
        replay(row.pk, actor="bob")
    age(row)
    with pytest.raises(DeadLetterNotOpenError):
        replay(row.pk, actor="bob", args=[9])

    assert replay(row.pk, actor="bob") == row.replay_task_id

    (message,) = take_messages("high")
    assert message.headers["id"] == row.replay_task_id
    assert message.payload[:2] == [[8], {"card": "4222"}]
    row.refresh_from_db()
    assert row.status == "replayed"
    action = DeadLetterAction.objects.get()
    assert (action.actor, action.detail["task_id"]) == ("ann", row.replay_task_id)
    assert "sent" not in action.detail


def test_a_refused_connection_later_does_not_open_it(mute_broker, settings):
    row, _ = unconfirmed(mute_broker)
    age(row)

    with unreachable_broker(settings), pytest.raises(DeadLetterUnconfirmedError):
        replay(row.pk, actor="bob")

    row.refresh_from_db()
    assert row.status == "replaying"
    assert DeadLetterAction.objects.count() == 1


def test_one_that_cannot_be_sent_again_gets_another_id(mute_broker):
    """The next replay may be another call: under the same id it would stand in for the first."""
    row, _ = unconfirmed(mute_broker)
    age(row)
    DeadLetter.objects.filter(pk=row.pk).update(task_name="gone.task")

    assert recover_replays() == 0

    first_id = row.replay_task_id
    row.refresh_from_db()
    assert (row.status, row.replay_task_id) == ("open", "")
    assert DeadLetterAction.objects.get().detail["task_id"] == first_id
