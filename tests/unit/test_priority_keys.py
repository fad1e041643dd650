"""Where a message waits: a list for each priority, in order, under names that stock Kombu reads."""

from __future__ import annotations

import pytest
from kombu.transport import redis as kombu_redis

from taskyard.priority import MAX_PRIORITY, MIN_PRIORITY, Priority
from taskyard.transport.keys import (
    SEPARATOR,
    STEPS_BY_URGENCY,
    key_for_step,
    keys_by_urgency,
    step_for_priority,
)
from taskyard.transport.redis import Channel

PRIORITIES = range(MIN_PRIORITY, MAX_PRIORITY + 1)


class StockChannel:
    """What stock Kombu computes keys with, configured as the documentation of its `priority_steps` says."""

    priority_steps = list(range(10))
    sep = kombu_redis.Channel.sep
    priority = kombu_redis.Channel.priority
    _q_for_pri = kombu_redis.Channel._q_for_pri


def key_of(priority: int | None) -> str:
    return key_for_step("high", step_for_priority(priority))


def test_each_priority_has_a_list_of_its_own():
    assert len({key_of(priority) for priority in PRIORITIES}) == 10
    assert {key_of(priority) for priority in PRIORITIES} == set(keys_by_urgency("high"))


def test_lists_are_served_by_falling_priority():
    assert keys_by_urgency("high") == [key_of(priority) for priority in sorted(PRIORITIES, reverse=True)]


def test_ordinary_messages_wait_in_the_list_that_has_the_name_of_the_queue():
    assert key_of(Priority.NORMAL) == "high"
    assert key_of(None) == "high"


@pytest.mark.parametrize(("given_priority", "nearest"), [(-5, 0), (10, 9), (255, 9)])
def test_values_outside_count_as_the_nearest(given_priority, nearest):
    assert key_of(given_priority) == key_of(nearest)


def test_stock_kombu_reads_every_list():
    stock = {StockChannel()._q_for_pri("high", step) for step in StockChannel.priority_steps}

    assert set(keys_by_urgency("high")) == stock


@pytest.mark.parametrize("step", STEPS_BY_URGENCY)
def test_each_key_is_the_one_of_stock_kombu(step):
    assert key_for_step("high", step) == StockChannel()._q_for_pri("high", step)
    assert Channel._q_for_pri(None, "high", step) == StockChannel()._q_for_pri("high", step)


def test_the_separator_is_that_of_kombu():
    assert kombu_redis.Channel.sep == SEPARATOR
    assert Channel.sep == kombu_redis.Channel.sep


def step_of_message(**message) -> int:
    return Channel._get_message_priority(None, {"properties": {}, "headers": {}} | message)


def test_our_messages_are_taken_at_their_word():
    for priority in PRIORITIES:
        step = step_of_message(properties={"priority": priority}, headers={"published_at": 1.0})
        assert step == step_for_priority(priority)


def test_a_stock_producer_that_states_no_priority_sends_ordinary_messages():
    # Kombu fills in 0, which is its most urgent and our least
    assert step_of_message(properties={"priority": 0}) == 0


def test_a_stock_producer_that_states_a_priority_is_taken_at_its_word():
    assert step_of_message(properties={"priority": 9}) == step_for_priority(9)


@pytest.mark.parametrize(
    "message",
    [
        {"properties": {"priority": None}},
        {"properties": {"priority": "urgent"}},
        {"properties": None},
        {"properties": {"priority": 9}, "headers": None},
        {"properties": {"priority": [9]}},
    ],
)
def test_a_message_of_any_shape_has_a_list(message):
    assert step_of_message(**message) == 0


def test_the_names_of_the_priorities():
    assert {priority.name: int(priority) for priority in Priority} == {
        "LOWEST": 0,
        "LOW": 3,
        "NORMAL": 5,
        "HIGH": 7,
        "URGENT": 9,
    }
