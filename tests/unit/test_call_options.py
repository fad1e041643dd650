"""Options of a call that nothing reads are refused; those that Celery or the kit hands on are not."""

from __future__ import annotations

import inspect
import logging

import pytest
from celery import chain, chord, group
from celery.app.amqp import AMQP
from celery.app.base import Celery
from celery.canvas import StampingVisitor
from kombu import Producer

from taskyard.errors import ArgumentError
from taskyard.tasks.call_options import KNOWN, OWN
from tests.support.runs import do_nothing


@pytest.fixture
def digest(declare):
    return declare(do_nothing)


@pytest.fixture
def unknown_options(caplog):
    """Return the lines about unknown options."""
    caplog.set_level(logging.WARNING, "taskyard")
    return lambda: [record.msg for record in caplog.records if "unknown option" in str(record.msg)]


class Stamp(StampingVisitor):
    """Sets a stamp, and an option that is none."""

    def on_signature(self, sig, **headers):
        return {"tenant": "acme", "shard": 7, "stamped_headers": ["tenant"]}


@pytest.mark.parametrize(
    ("option", "suggestion"),
    [
        ("unique_fro", " Did you mean 'unique_for'?"),
        ("count_down", " Did you mean 'countdown'?"),
        ("Queue", " Did you mean 'queue'?"),
        ("xyzzy", ""),
    ],
)
def test_an_unknown_option_is_refused_with_a_suggestion(digest, take_messages, option, suggestion):
    with pytest.raises(ArgumentError) as refused:
        digest.apply_async((1,), **{option: 10})

    assert str(refused.value) == (
        f"The call of task {digest.name!r} has the unknown option {option!r}.{suggestion} Nothing reads it: "
        "correct or remove it; what your own code reads goes into headers={...}."
    )
    assert take_messages() == []


@pytest.mark.parametrize("publish", ["signature", "by_name", "many"])
def test_it_is_refused_however_the_call_is_made(digest, take_messages, publish):
    with pytest.raises(ArgumentError, match="Did you mean 'countdown'"):
        {
            "signature": lambda: digest.s(1).set(count_down=1).apply_async(),
            "by_name": lambda: digest.app.send_task("elsewhere.digest", (1,), count_down=1),
            "many": lambda: digest.enqueue_many([(1,)], count_down=1),
        }[publish]()

    assert take_messages() == []


def test_what_celery_and_kombu_take_is_known():
    taken: set[str] = set()
    # Celery makes these of other options
    filled = {"self", "name", "args", "kwargs", "body", "options", "properties", "callbacks", "errbacks"}
    for function in (Celery.send_task, AMQP.as_task_v2, Producer.publish):
        taken |= set(inspect.signature(function).parameters)

    assert taken - filled - {"create_sent_event"} <= KNOWN


def test_the_options_of_the_kit_are_known(digest, take_messages):
    digest.apply_async((1,), on_commit=False, unique_for=None)

    assert len(take_messages()) == 1
    assert {"on_commit", "unique_for", "unique_key", "unique", "unique_until"} == OWN


def test_a_stamping_visitor_sets_what_it_likes(digest, take_messages):
    call = digest.s(1)
    call.stamp(Stamp())

    call.apply_async()

    (message,) = take_messages()
    assert message.headers["stamps"] == {"tenant": "acme"}


@pytest.mark.parametrize(
    "canvas",
    [
        lambda call: group(call, call),
        lambda call: chain(call, call.clone()),
        lambda call: chord([call, call.clone()], call.clone()),
    ],
    ids=["group", "chain", "chord"],
)
def test_a_canvas_brings_no_option_of_its_own(digest, unknown_options, canvas):
    canvas(digest.si()).apply_async(countdown=1)

    assert unknown_options() == []


def test_the_repetition_of_a_message_brings_none(digest, take_messages):
    delivery = {
        "exchange": "x",
        "routing_key": "default",
        "priority": 5,
        "redelivered": True,
        "consumer_tag": "1",
    }
    digest.push_request(id="id-1", args=(), kwargs={}, delivery_info=delivery, called_directly=False)

    options = digest.signature_from_request(countdown=1).options

    digest.pop_request()
    assert options.keys() <= KNOWN


def test_a_part_of_a_canvas_is_published_and_logged_once(memory_app, take_messages, unknown_options):
    digest = memory_app.task(name="call_options.part")(do_nothing)

    for _ in range(2):
        digest.apply_async(root_id="r", parent_id="p", count_down=1)

    assert len(take_messages()) == 2
    (line,) = unknown_options()
    assert line["problem"].startswith("the unknown option 'count_down'. Did you mean 'countdown'?")
    assert (line["level"], line["task"]) == ("warning", "call_options.part")
