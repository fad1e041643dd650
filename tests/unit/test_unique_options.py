"""Options of deduplicated publish: what a declaration or a call may say."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery import chain, chord, group

from taskyard.errors import ArgumentError, TaskDefinitionError
from taskyard.tasks.unique import take_unique_call
from taskyard.tasks.unique_header import HEADER


def index(tenant, page=1):
    """The task of these tests."""


@pytest.fixture
def task(declare):
    return declare(index)


def take(task, *args, **options):
    return take_unique_call(task.name, task, args, {}, options)


class TestTheDeclaration:
    @pytest.mark.parametrize(
        "options",
        [
            {"unique_for": 60},
            {"unique_for": timedelta(minutes=1), "unique_key": "tenant", "unique_until": "start"},
            {"unique_for": 0.5, "unique": "throttle", "unique_until": "end"},
            {"unique_for": 60, "unique": "debounce", "unique_key": "{tenant}-{page}"},
            {"unique_for": 60, "unique": "replace", "unique_key": ""},
            {"unique_for": 60, "unique_key": lambda page: page // 10},
        ],
    )
    def test_what_can_work_is_accepted(self, declare, options):
        assert take(declare(index, **options), 7) is not None

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"unique_for": 0}, r"unique_for=0\. Give seconds above 0 or a timedelta"),
            ({"unique_for": timedelta(-1)}, r"Give seconds above 0"),
            ({"unique_for": float("inf")}, r"Give seconds above 0"),
            ({"unique_for": 1e30}, r"unique_for=1e\+30\. Give .*, up to 10 years"),
            ({"unique_for": timedelta.max}, r"up to 10 years"),
            ({"unique_for": True}, r"Give seconds above 0"),
            ({"unique_for": "1 min"}, r"Give seconds above 0"),
            ({"unique_key": "tenant"}, r"has unique_key='tenant', but no unique_for\. Say"),
            ({"unique": "debounce"}, r"has unique='debounce', but no unique_for"),
            (
                {"unique_for": 9, "unique": "debouce"},
                r"'debouce'\. Did you mean 'debounce'\? Use one of: throttle, debounce, replace\.",
            ),
            (
                {"unique_for": 9, "unique_until": "success"},
                r"unique_until='success'\. Did you mean 'end'\? Use one of: expiry, start, end\.",
            ),
            (
                {"unique_for": 9, "unique": "replace", "unique_until": "start"},
                r"unique='replace' and unique_until='start'\. Leave unique_until out",
            ),
            ({"unique_for": 9, "unique_key": "tenat"}, r"Did you mean 'tenant'\?"),
        ],
    )  # fmt: skip
    def test_what_cannot_is_refused_with_what_to_write(self, declare, options, problem):
        with pytest.raises(TaskDefinitionError, match=problem) as raised:
            declare(index, **options)

        assert "'outcome.probe'" in str(raised.value)


class TestTheCall:
    def test_most_calls_are_not_compared(self, task):
        assert take(task, 7) is None

    def test_its_options_are_taken_out_of_those_of_the_message(self, task):
        options = {"unique_for": 60, "unique_key": "tenant", "unique": "replace", "countdown": 3}

        call = take_unique_call(task.name, task, (7,), {}, options)

        assert options == {"countdown": 3}
        assert (call.key, call.mode, call.seconds) == ("unique:outcome.probe:7", "replace", 60)

    def test_all_arguments_are_compared_unless_it_says_otherwise(self, declare):
        task = declare(index, unique_for=60)

        assert take(task, 7) == take(task, 7, 1) != take(task, 7, 2)
        assert take(task, 7, unique_key="tenant") == take(task, 7, 2, unique_key="tenant")

    def test_it_may_differ_from_the_declaration(self, declare):
        task = declare(index, unique_for=60, unique_key="tenant", unique_until="end")

        call = take(task, 7, unique_for=timedelta(hours=1), unique="debounce")

        assert (call.seconds, call.mode, call.until) == (3600, "debounce", "expiry")
        assert take(task, 7, unique_until="start").until == "start"
        assert take(task, 7).until == "end"

    def test_none_publishes_it_whatever_the_task_says(self, declare):
        assert take(declare(index, unique_for=60), 7, unique_for=None) is None

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"unique_for": -1}, r"The call of task 'outcome.probe' has unique_for=-1\. Give seconds"),
            ({"unique_key": "tenant"}, r"has unique_key='tenant', but no unique_for"),
            ({"unique_for": 9, "unique_key": "tenat"}, r"Did you mean 'tenant'\?"),
            ({"unique_for": 9, "unique": "latest"}, r"unique='latest'\. Use one of"),
            ({"unique_for": 9, "unique": "debounce", "countdown": 5}, r"is debounced and has a countdown"),
        ],
    )
    def test_a_wrong_one_is_refused(self, task, options, problem):
        with pytest.raises(ArgumentError, match=problem):
            take(task, 7, **options)

    def test_a_task_that_is_not_known_here_cannot_be_compared(self, memory_app):
        with pytest.raises(ArgumentError, match=r"'other.task' has unique_for=9, but in this process"):
            memory_app.send_task("other.task", (7,), unique_for=9)


class TestWhatIsNotCompared:
    """Nothing listens at the state store of these tests: comparing would log that."""

    @pytest.fixture
    def unique_task(self, declare):
        return declare(index, unique_for=60, ignore_result=False)

    @pytest.fixture
    def is_compared(self, take_messages):
        return lambda: [HEADER in message.headers for message in take_messages()]

    def test_a_plain_call_is(self, unique_task, is_compared):
        unique_task.delay(7)
        unique_task.s(8).delay()

        assert is_compared() == [True, True]

    @pytest.mark.parametrize(
        "publish",
        [
            lambda task: group(task.si(1), task.si(1)).delay(),
            lambda task: chain(task.si(1), task.si(1)).delay(),
            lambda task: chord([task.si(1), task.si(1)], task.si(1)).delay(),
            lambda task: task.apply_async((1,), link=task.si(2)),
            lambda task: task.apply_async((1,), link_error=task.si(2)),
            lambda task: task.apply_async((1,), parent_id="p", root_id="r"),
            lambda task: task.apply_async((1,), retries=1),
            lambda task: task.apply_async((1,), unique_for=None),
            lambda task: task.enqueue_many([(1,), (1,)], unique_for=None),
        ],
        ids=["group", "chain", "chord", "link", "link_error", "callback", "retry", "none", "bulk"],
    )
    def test_what_something_waits_for_is_not(self, unique_task, is_compared, publish):
        publish(unique_task)

        found = is_compared()
        assert found
        assert not any(found)

    def test_a_bulk_call_says_what_to_do(self, unique_task, take_messages):
        with pytest.raises(ArgumentError, match=r"has unique_for\. Call apply_async for each"):
            unique_task.enqueue_many([(1,), (2,)])

        assert take_messages() == []
