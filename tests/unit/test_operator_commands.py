"""Commands of an operator that can do nothing: an empty id, a broker that is away."""

from __future__ import annotations

import pytest
from celery import current_app
from django.core.management import CommandError, call_command

from taskyard import cancel
from taskyard.errors import ArgumentError, BrokerUnavailableError
from taskyard.tasks.broker_questions import ask_broker
from tests.support.letters import unreachable_broker


@pytest.mark.parametrize("task_id", ["", "  "])
def test_a_cancellation_of_nothing_is_refused(memory_app, task_id):
    with pytest.raises(ArgumentError, match="The id of the task to cancel is empty"):
        cancel(task_id, app=memory_app)


def test_the_command_refuses_it_in_a_sentence(memory_app):
    with pytest.raises(CommandError, match="The id of the task to cancel is empty"):
        call_command("tasks", "cancel", "")


def test_an_error_of_the_broker_ends_with_one_full_stop():
    with pytest.raises(CommandError) as caught:
        call_command("queues", "list")

    assert "Connection refused. Is it running?" in str(caught.value)


def test_and_so_does_one_of_a_question(letter_app, settings):
    with unreachable_broker(settings), pytest.raises(BrokerUnavailableError) as caught:
        ask_broker(current_app._get_current_object(), lambda client, _: client.ping(), timeout_seconds=0.5)

    assert "Connection refused. Look at it" in str(caught.value)
