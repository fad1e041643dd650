"""The database way: an effect and the record that it has happened commit together, or not at all."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from taskyard.celery_options import kit_schedules
from taskyard.clock import SYSTEM_CLOCK
from taskyard.effects import EffectDone, effect_once, purge_effects
from taskyard.errors import ArgumentError
from taskyard.models import Effect
from taskyard.operations.tasks import purge_effects as purge_task
from tests.support.runs import run

pytestmark = pytest.mark.django_db


class PlannedError(Exception):
    """Ends a transaction."""


def make_group(key: str, name: str) -> bool:
    """Have an effect, once; return whether this was the time."""
    with effect_once(key) as is_first:
        if is_first:
            Group.objects.create(name=name)
        return bool(is_first)


def make_group_and_fail(name: str) -> None:
    with effect_once("group:1") as is_first:
        assert is_first
        Group.objects.create(name=name)
        raise PlannedError


def fail_around_the_effect() -> None:
    with transaction.atomic():
        assert make_group("group:1", "rolled back") is True
        raise PlannedError


def group_names():
    return list(Group.objects.order_by("name").values_list("name", flat=True))


def test_the_first_time_is_the_first_and_no_other():
    assert [make_group("group:1", name) for name in ("first", "second")] == [True, False]
    assert make_group("group:2", "third") is True
    assert group_names() == ["first", "third"]


def test_a_failure_takes_the_record_along_so_that_the_next_one_is_the_first():
    with pytest.raises(PlannedError):
        make_group_and_fail("rolled back")

    assert make_group("group:1", "first") is True
    assert group_names() == ["first"]


def test_inside_a_transaction_the_record_belongs_to_it():
    with pytest.raises(PlannedError):
        fail_around_the_effect()

    assert not Effect.objects.exists()
    assert make_group("group:1", "first") is True


def test_a_duplicate_does_not_break_the_transaction_around_it():
    make_group("group:1", "first")

    with transaction.atomic():
        Group.objects.create(name="before")
        assert make_group("group:1", "second") is False
        Group.objects.create(name="after")

    assert group_names() == ["after", "before", "first"]


def test_a_duplicate_that_does_not_ask_is_rolled_back():
    for _ in range(2):
        try:
            with effect_once("group:1"):
                Group.objects.create(name=f"group {Group.objects.count()}")
        except EffectDone as done:
            reason = str(done)

    assert group_names() == ["group 0"]
    assert reason == "the effect 'group:1' has happened already"


def test_a_task_whose_effect_has_happened_is_cancelled_not_failed(declare, recorded_failures, events):
    def body():
        with effect_once("group:1"):
            Group.objects.get_or_create(name="once")

    task = declare(body)

    run(task)
    with pytest.raises(Exception, match="has happened already"):
        run(task)

    assert recorded_failures == []
    assert events()[-1]["event"] == "task cancelled"


def test_the_record_says_when_and_in_which_task(declare):
    def body():
        return make_group("group:1", "first")

    result = declare(body).apply()
    make_group("group:2", "second")

    inside, outside = Effect.objects.order_by("key")
    assert (inside.task_id, outside.task_id) == (result.id, "")
    assert timedelta(0) <= SYSTEM_CLOCK.now() - inside.at < timedelta(minutes=1)


@pytest.mark.parametrize("key", ["x" * 5000, "a\x00b", "\ud800", "a\nb"])
def test_any_text_is_a_key(key):
    assert [make_group(key, "first"), make_group(key, "second")] == [True, False]
    assert make_group(f"{key}c", "third") is True


@pytest.mark.parametrize("key", ["", None, 7])
def test_what_names_nothing_is_refused(key):
    with pytest.raises(ArgumentError) as refused, effect_once(key):
        pass

    assert str(refused.value) == (
        f"The key of an effect is {key!r}. Give a text that names it, as in f'invoice:{{order.pk}}'."
    )


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 100])
def test_old_effects_are_forgotten_in_chunks_and_young_ones_are_not(clock, chunk_size):
    for days in range(10):
        Effect.objects.create(key=f"effect {days}", at=clock.now() - timedelta(days=days))

    assert purge_effects(timedelta(days=6), chunk_size=chunk_size, clock=clock) == 3
    assert purge_effects(timedelta(days=6), chunk_size=chunk_size, clock=clock) == 0
    assert Effect.objects.count() == 7


def test_the_scheduled_task_keeps_them_as_long_as_the_settings_say():
    now = SYSTEM_CLOCK.now()
    for days in (89, 91):
        Effect.objects.create(key=f"effect {days}", at=now - timedelta(days=days))

    purge_task()

    assert [effect.key for effect in Effect.objects.all()] == ["effect 89"]
    assert kit_schedules()["operations.purge_effects"]["task"] == purge_task.name


def test_it_shows_what_it_is():
    with effect_once("group:1") as is_first:
        assert repr(is_first) == "<effect 'group:1': first time>"
