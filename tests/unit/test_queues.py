"""The queue table: the reference values, a project's changes, and what is refused."""

from __future__ import annotations

import math

import pytest

from taskyard.errors import ConfigurationError, UnknownQueueError
from taskyard.queues import DEFAULT_QUEUES, QueueSpec, QueueTable, build_queue_table
from taskyard.retry import Exponential, Fixed

HOUR = 3600


def make_spec(**changes) -> QueueSpec:
    values = {
        "name": "q",
        "purpose": "",
        "start_objective_seconds": 1,
        "soft_time_limit_seconds": 1,
        "time_limit_seconds": 2,
        "retry": Exponential(),
    }
    return QueueSpec(**(values | changes))


def test_the_five_queues_have_the_values_of_the_conventions():
    rows = [
        (
            spec.name,
            spec.start_objective_seconds,
            spec.soft_time_limit_seconds,
            spec.time_limit_seconds,
            (spec.retry.max_retries, spec.retry.max_age_seconds),
            spec.prefetch,
            spec.processes,
            spec.dedicated,
            spec.on_exhausted,
        )
        for spec in DEFAULT_QUEUES
    ]

    assert rows == [
        ("critical", 1, 25, 30, (None, 24 * HOUR), 1, 2, True, "dead_letter"),
        ("high", 5, 55, 60, (5, None), 1, 4, True, "dead_letter"),
        ("default", 30, 270, 300, (3, None), 4, 4, True, "dead_letter"),
        ("low", 300, 540, 600, (3, None), 4, 2, False, "dead_letter"),
        ("bulk", HOUR, 3540, 3600, (3, None), 8, 2, True, "dead_letter"),
    ]


def test_the_table_keeps_the_order_of_urgency():
    table = build_queue_table({"bulk": {"processes": 9}, "critical": {"processes": 8}, "extra": {}})

    assert list(table) == ["critical", "high", "default", "low", "bulk", "extra"]
    assert len(table) == 6


def test_a_change_touches_only_the_field_named():
    changed = build_queue_table({"high": {"processes": 16}})["high"]
    original = DEFAULT_QUEUES[1]

    assert changed.processes == 16
    assert changed.retry == original.retry
    assert changed.time_limit_seconds == original.time_limit_seconds
    assert original.processes == 4


def test_a_new_queue_starts_as_a_copy_of_default_and_comes_last():
    table = build_queue_table({"mail": {"retry": Fixed(seconds=5)}})
    default = table["default"]

    assert list(table)[-1] == "mail"
    assert table["mail"].retry == Fixed(seconds=5)
    assert table["mail"].time_limit_seconds == default.time_limit_seconds
    assert table["mail"].prefetch == default.prefetch
    assert table["mail"].purpose == ""


def test_changes_do_not_reach_other_tables():
    build_queue_table({"mail": {}})

    assert "mail" not in build_queue_table({})


def test_an_unknown_field_is_refused_with_a_suggestion():
    with pytest.raises(ConfigurationError) as caught:
        build_queue_table({"high": {"time_limit": 5}})

    assert str(caught.value) == (
        "QUEUES['high'] has the unknown field 'time_limit'. Did you mean 'time_limit_seconds'? "
        "The fields are: purpose, start_objective_seconds, soft_time_limit_seconds, time_limit_seconds, "
        "retry, on_exhausted, prefetch, processes, dedicated."
    )


def test_the_name_of_a_queue_cannot_be_changed():
    with pytest.raises(ConfigurationError, match="unknown field 'name'"):
        build_queue_table({"high": {"name": "x"}})


@pytest.mark.parametrize(("soft", "hard"), [(0, 5), (-1, 5), (5, 5), (6, 5)])
def test_limits_that_contradict_each_other_are_refused(soft, hard):
    with pytest.raises(ConfigurationError) as caught:
        make_spec(soft_time_limit_seconds=soft, time_limit_seconds=hard)

    assert str(caught.value) == (
        f"Queue 'q' has a soft limit of {soft} s and a hard limit of {hard} s. "
        "The soft limit must be above 0 and below the hard limit."
    )


@pytest.mark.parametrize("field", ["prefetch", "processes"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_queue_needs_at_least_one_of_each(field, value):
    with pytest.raises(ConfigurationError) as caught:
        make_spec(**{field: value})

    assert str(caught.value) == f"Queue 'q' has {field}={value}. It must be 1 or more."


@pytest.mark.parametrize(
    "changes",
    [
        {"prefetch": "4"},
        {"prefetch": True},
        {"processes": 1.5},
        {"time_limit_seconds": "30"},
        {"time_limit_seconds": math.inf},
        {"soft_time_limit_seconds": None},
        {"start_objective_seconds": "soon"},
    ],
)
def test_a_value_of_the_wrong_type_is_refused(changes):
    ((field, value),) = changes.items()

    with pytest.raises(ConfigurationError) as caught:
        make_spec(**changes)

    assert str(caught.value) == f"Queue 'q' has {field}={value!r}. It must be a number."


def test_an_unknown_end_of_the_retries_is_refused():
    with pytest.raises(ConfigurationError, match=r"on_exhausted='deadletter'\. Did you mean 'dead_letter'\?"):
        make_spec(on_exhausted="deadletter")


@pytest.mark.parametrize("name", ["", "a,b", "a b", "-x", "a\x06\x16" + "3", "ä", "a/b"])
def test_a_name_that_tools_would_misread_is_refused(name):
    with pytest.raises(ConfigurationError) as caught:
        make_spec(name=name)

    assert str(caught.value) == (
        f"A queue has the name {name!r}. Use letters, digits, '.', '_' and '-' only."
    )


def test_an_unknown_queue_says_who_named_it_and_what_it_may_have_meant():
    table = build_queue_table({})

    with pytest.raises(UnknownQueueError) as caught:
        table.require("hihg", where="Task 'mail.send'")

    assert caught.value.queue == "hihg"
    assert str(caught.value) == (
        "Task 'mail.send' names the queue 'hihg', which does not exist. Did you mean 'high'? "
        "The queues are: critical, high, default, low, bulk."
    )


def test_the_default_queue_must_exist():
    with pytest.raises(UnknownQueueError, match="The setting DEFAULT_QUEUE names the queue 'nowhere'"):
        QueueTable(DEFAULT_QUEUES, default="nowhere")
    assert QueueTable(DEFAULT_QUEUES, default="low").default == "low"
