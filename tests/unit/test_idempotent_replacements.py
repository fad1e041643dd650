"""An idempotent task that is replaced by another (`self.replace`) publishes it once a key."""

from __future__ import annotations

import pytest
from celery import chain, chord, group
from celery.exceptions import Ignore
from django.db import transaction

from tests.support.idempotent_fixtures import KEY
from tests.support.runs import run


@pytest.fixture
def step(memory_app):
    """A plain task to be replaced with."""

    @memory_app.task(name="outcome.step", ignore_result=False)
    def step(order_id=None): ...

    return memory_app.tasks["outcome.step"]


@pytest.fixture
def replaced(idempotent):
    """Declare a task that is replaced with what the given function makes of it."""

    def replaced(make, **options):
        def body(self, order_id):
            return self.replace(make(self, order_id))

        return idempotent(body, **options)

    return replaced


def names(messages) -> list[str]:
    return [message.headers["task"] for message in messages]


@pytest.mark.parametrize(
    "make",
    [
        lambda step: step.si(7),
        lambda step: chain(step.si(7), step.si(8)),
        lambda step: step.si(7) | step.s(),
    ],
    ids=["task", "chain", "chain with a result"],
)
def test_two_calls_with_one_key_publish_one_successor(replaced, step, store, take_messages, make):
    task = replaced(lambda self, order_id: make(step))

    with pytest.raises(Ignore):
        run(task, 7, task_id="id-1")
    again = run(task, 7, task_id="id-2")

    assert again is None
    assert names(take_messages()) == ["outcome.step"]
    assert store.read(KEY).state == "done"


@pytest.mark.parametrize(
    "make",
    [
        lambda self: self.si(7),
        lambda self: self.app.tasks["outcome.step"].si(7) | self.si(7),
        lambda self: self.app.tasks["outcome.step"].si(7) | self.s(),
        lambda self: group(self.si(7), self.si(8)),
        lambda self: chord([self.app.tasks["outcome.step"].si(1)], self.si(7)),
    ],
    ids=["itself", "in a chain", "by a result", "in a group", "of a chord"],
)
def test_a_successor_with_the_same_key_finds_it_free(replaced, step, store, make):
    task = replaced(lambda self, order_id: make(self))

    with pytest.raises(Ignore):
        run(task, 7)

    assert store.read(KEY) is None


def test_a_successor_with_another_key_leaves_this_one_done(replaced, store, take_messages):
    task = replaced(lambda self, order_id: self.si(order_id + 1))

    with pytest.raises(Ignore):
        run(task, 7)

    assert store.read(KEY).state == "done"
    assert names(take_messages()) == ["outcome.probe"]


def test_what_is_ignored_by_hand_frees_the_key(idempotent, store):
    def body(self, order_id):
        raise Ignore

    with pytest.raises(Ignore):
        run(idempotent(body), 7)

    assert store.read(KEY) is None


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_the_replacement_rolls_back_does_not_take_it_along(
    replaced, idempotent, step, take_messages
):
    def body(self, order_id):
        with transaction.atomic():
            return self.replace(step.si(order_id))

    with pytest.raises(Ignore):
        run(idempotent(body), 7)

    assert names(take_messages()) == ["outcome.step"]
