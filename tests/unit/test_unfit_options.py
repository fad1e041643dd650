"""Declarations whose calls would be lost, and options that would be ignored in silence, are refused."""

from __future__ import annotations

import functools
import math

import pytest
from asgiref.sync import async_to_sync

from taskyard import Exponential, Fixed
from taskyard.errors import TaskDefinitionError
from taskyard.tasks.base import Task
from tests.support.runs import run


def refusal(declare, **options) -> str:
    def body(order_id=None): ...

    with pytest.raises(TaskDefinitionError) as caught:
        declare(body, **options)
    return str(caught.value)


async def charge(order_id=None):
    """Awaited by nobody."""


def numbers(order_id=None):
    yield order_id


async def pages(order_id=None):
    yield order_id


class TestFunctions:
    """What a worker's call would not run."""

    @pytest.mark.parametrize("body", [charge, pages])
    def test_an_async_function_is_refused(self, declare, body):
        with pytest.raises(TaskDefinitionError) as caught:
            declare(body)

        assert str(caught.value) == (
            f"Task 'outcome.probe' is an async function: {body.__name__}. Workers run plain functions, so "
            "its body would never run. Write a plain function that calls it with asgiref.sync.async_to_sync."
        )

    @pytest.mark.parametrize("bind", [True, False])
    def test_a_generator_is_refused(self, declare, bind):
        with pytest.raises(TaskDefinitionError, match=r"is a generator \(it has a yield\): numbers\."):
            declare(numbers, bind=bind)

    def test_an_async_function_behind_a_partial_is_refused(self, memory_app):
        class Charge(Task):
            name = "unfit.charge"
            run = staticmethod(functools.partial(charge, order_id=7))

        with pytest.raises(TaskDefinitionError, match="is an async function: charge"):
            memory_app.register_task(Charge())

    def test_an_async_method_is_refused(self, memory_app):
        class Charge(Task):
            name = "unfit.charge"

            async def run(self, order_id): ...

        with pytest.raises(TaskDefinitionError, match=r"'unfit\.charge' is an async function: .*Charge\.run"):
            memory_app.register_task(Charge())

    def test_a_plain_function_that_awaits_is_taken(self, declare):
        async def double(number):
            return 2 * number

        def body(number):
            return async_to_sync(double)(number)

        assert declare(body).apply((4,)).get() == 8

    def test_a_decorator_may_await(self, declare):
        def awaited(function):
            @functools.wraps(function)
            def call(*args):
                return async_to_sync(function)(*args)

            return call

        @awaited
        async def double(number):
            return 2 * number

        assert declare(double).apply((4,)).get() == 8


class TestDisguised:
    """A decorator that only hands the call on: seen when the task runs."""

    @pytest.mark.parametrize(
        ("function", "kind"), [(charge, "coroutine"), (numbers, "generator"), (pages, "async_generator")]
    )
    def test_a_body_that_has_not_run_is_a_failure_for_good(self, declare, recorded_failures, function, kind):
        @functools.wraps(function)
        def traced(order_id):
            return function(order_id)

        with pytest.raises(TaskDefinitionError) as caught:
            run(declare(traced, retry=Fixed(seconds=1, max_retries=5)), 7)

        assert str(caught.value) == (
            f"Task 'outcome.probe' has returned the {kind} {function.__name__}, whose body has not run. Run "
            "it in the task: asgiref.sync.async_to_sync(function)(...) for a coroutine, a loop for a "
            "generator."
        )
        assert [failure.reason for failure in recorded_failures] == ["not_retryable"]

    def test_what_a_plain_function_returns_is_its_own_affair(self, declare):
        def body(numbers):
            return (number + 1 for number in numbers)

        assert list(run(declare(body), [1, 2])) == [2, 3]


class TestDelivery:
    def test_an_early_acknowledgement_is_refused(self, declare):
        assert refusal(declare, acks_late=False) == (
            "Task 'outcome.probe' has acks_late=False. A worker that dies would lose it without a trace; the "
            "kit promises that it runs again. Leave the option out, or give on_exhausted='drop', too, for "
            "work that nobody will miss."
        )

    def test_work_that_nobody_will_miss_may_have_it(self, declare):
        assert declare(acks_late=False, on_exhausted="drop").acks_late is False

    @pytest.mark.parametrize("serializer", ["pickle", "yaml", "msgpack"])
    def test_another_serializer_is_refused(self, declare, serializer):
        assert refusal(declare, serializer=serializer) == (
            f"Task 'outcome.probe' has serializer={serializer!r}. Messages are JSON only (TY007): no worker "
            "would accept its calls. Leave the option out."
        )


class TestValues:
    @pytest.mark.parametrize("option", ["soft_time_limit", "time_limit"])
    @pytest.mark.parametrize("value", [-1, 0, math.nan, math.inf, "10", True, [5]])
    def test_a_limit_that_is_no_time_is_refused(self, declare, option, value):
        assert refusal(declare, **{option: value}) == (
            f"Task 'outcome.probe' has {option}={value!r}. Give seconds above 0 as a number, or leave it out "
            "for the limit of the queue."
        )

    @pytest.mark.parametrize("priority", ["high", "5", 5.5, True])
    def test_a_priority_that_is_no_whole_number_is_refused(self, declare, priority):
        wrong = f"has priority={priority!r}. Priorities are 0 to 9, 9 the most urgent."

        assert refusal(declare, priority=priority) == f"Task 'outcome.probe' {wrong}"

    @pytest.mark.parametrize("priority", ["high", "5", 5.5, True])
    def test_a_call_with_a_priority_that_is_no_whole_number_is_refused(self, declare, priority):
        wrong = f"has priority={priority!r}. Priorities are 0 to 9, 9 the most urgent."

        with pytest.raises(TaskDefinitionError) as caught:
            declare().apply_async(priority=priority)
        assert str(caught.value) == f"The call of task 'outcome.probe' {wrong}"

    @pytest.mark.parametrize("redact", [None, 5, "order_id", ("order_id", 5)])
    def test_marks_that_are_no_names_are_refused(self, declare, redact):
        assert refusal(declare, redact=redact) == (
            f"Task 'outcome.probe' has redact={redact!r}. Give a tuple of names."
        )

    @pytest.mark.parametrize("value", ["no", 0])
    def test_a_choice_about_results_is_true_or_false(self, declare, value):
        assert refusal(declare, ignore_result=value) == (
            f"Task 'outcome.probe' has ignore_result={value!r}. Use True or False; False stores the result."
        )


class TestIgnoredOptions:
    def test_a_bound_that_nothing_reads_is_refused(self, declare):
        assert refusal(declare, max_retries=5) == (
            "Task 'outcome.probe' has max_retries=5, which nothing reads. Give "
            "retry=Exponential(max_retries=..., on=(...,)) instead: the retry policy decides."
        )

    def test_a_bound_besides_a_policy_is_refused(self, declare):
        with pytest.raises(TaskDefinitionError, match="has max_retries=5"):
            declare(bind=True, max_retries=5, retry=Fixed(seconds=1))

    def test_the_bound_of_retries_by_hand_is_taken(self, memory_app, make_app):
        class ByHand(Task):
            name = "unfit.by_hand"
            max_retries = 5

            def run(self): ...

        # to the second application it comes with the policy that its queue has given it
        for app in (memory_app, make_app()):
            assert app.register_task(ByHand()).max_retries == 5

    @pytest.mark.parametrize("option", ["retry_backoff", "retry_kwargs", "dont_autoretry_for"])
    def test_an_option_of_automatic_retries_alone_is_refused(self, declare, option):
        assert f"has {option}=(), which nothing reads. Give retry=" in refusal(declare, **{option: ()})

    def test_two_that_decide_are_refused(self, declare):
        policy = Exponential(max_retries=5)

        assert refusal(declare, autoretry_for=(OSError,), retry=policy) == (
            f"Task 'outcome.probe' has autoretry_for=(<class 'OSError'>,) and retry={policy!r}, so two would "
            "decide about each failure. Leave autoretry_for out and give the policy these errors as "
            "on=(...,)."
        )

    def test_expected_errors_are_the_policy_s(self, declare):
        assert refusal(declare, throws=(KeyError,)) == (
            "Task 'outcome.probe' has throws=(<class 'KeyError'>,), which nothing reads. Give the policy "
            "these errors as never_on=(...,): they are not retried, and their dead letters say why."
        )

    def test_lost_processes_are_the_kit_s(self, declare):
        assert refusal(declare, reject_on_worker_lost=True) == (
            "Task 'outcome.probe' has reject_on_worker_lost=True, which nothing reads. Leave it out: a lost "
            "process runs its task again, MAX_WORKER_LOSSES times."
        )

    def test_celery_s_own_tasks_may_have_them(self, memory_app):
        assert memory_app.tasks["celery.chord_unlock"].max_retries is None
