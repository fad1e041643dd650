"""How a circuit breaker is declared, what is refused, and which ends of a run are failures."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded

from taskyard import Breaker, Cancel, Snooze
from taskyard.errors import ClaimLostError, TaskDefinitionError, TimedOutError


class PartnerError(Exception):
    """The partner is down."""


class CardDeclinedError(Exception):
    """The partner has answered: no."""


def declare(app, name="breaker.probe", **options):
    @app.task(name=name, **options)
    def probe(host, order_id=None):
        return order_id

    return app.tasks[probe.name]


def refusal(app, **options) -> str:
    with pytest.raises(TaskDefinitionError) as caught:
        declare(app, **options)
    return str(caught.value)


class TestParameters:
    def test_a_name_is_enough(self):
        breaker = Breaker("payments")

        assert (breaker.failure_rate, breaker.minimum_calls, breaker.window_seconds) == (0.5, 20, 60)
        assert (breaker.open_seconds, breaker.longest_open_seconds) == (30, 300)
        assert (breaker.probes, breaker.recovery_seconds) == (1, 60)

    def test_a_misspelt_parameter_is_refused_in_one_line(self):
        with pytest.raises(TaskDefinitionError) as refused:
            Breaker("payments", open_second=5)

        assert str(refused.value).startswith(
            "Breaker has the unknown parameter 'open_second'. Did you mean 'open_seconds'? "
            "Its parameters are: name, "
        )

    def test_it_can_be_changed_into_another_one_and_pickled(self):
        breaker = dataclasses.replace(Breaker("payments"), probes=2)

        assert pickle.loads(pickle.dumps(breaker)) == Breaker("payments", probes=2)

    def test_it_cannot_be_changed(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            Breaker("payments").probes = 2

    @pytest.mark.parametrize(
        ("field", "value", "what"),
        [
            ("failure_rate", 0, "above 0 and at most 1: the part of the calls that fails"),
            ("failure_rate", 50, "above 0 and at most 1: the part of the calls that fails"),
            ("minimum_calls", 0, "1 or more"),
            ("minimum_calls", 2.5, "1 or more"),
            ("probes", True, "1 or more"),
            ("window_seconds", 0, "a number of seconds above 0"),
            ("open_seconds", float("inf"), "a number of seconds above 0"),
            ("recovery_seconds", -1, "a number of seconds, 0 or more"),
            ("max_open_seconds", 10, "at least open_seconds, which is 30"),
            ("counts", OSError, "a tuple of exception classes, as in (OSError,)"),
            ("ignores", ("OSError",), "a tuple of exception classes, as in (OSError,)"),
        ],
    )
    def test_what_could_never_work_is_refused(self, field, value, what):
        with pytest.raises(TaskDefinitionError) as caught:
            Breaker("payments", **{field: value})

        assert str(caught.value) == f"Breaker 'payments' has {field}={value!r}. It must be {what}."

    @pytest.mark.parametrize("name", ["", None, 7])
    def test_it_needs_a_name(self, name):
        with pytest.raises(TaskDefinitionError, match=r"Breaker has name=.* Name what is called"):
            Breaker(name)


class TestFailures:
    @pytest.mark.parametrize(
        "error",
        [
            PartnerError(),
            ValueError("the partner has sent no JSON"),
            SoftTimeLimitExceeded(),
            TimedOutError(),
            # a task that asks for a retry itself
            Retry(exc=PartnerError()),
        ],
    )
    def test_these_count(self, error):
        assert Breaker("payments").is_failure(error) is True

    @pytest.mark.parametrize(
        "error",
        [
            Snooze(1),
            Cancel(),
            Ignore(),
            Reject(),
            Retry(),
            Retry(exc=TypeError("a mistake")),
            TypeError("a mistake"),
            AttributeError("a mistake"),
            ClaimLostError(),
            SystemExit(),
            KeyboardInterrupt(),
        ],
    )
    def test_these_say_nothing(self, error):
        assert Breaker("payments").is_failure(error) is None

    def test_coming_to_the_end_is_a_success(self):
        assert Breaker("payments").is_failure(None) is False

    def test_what_is_not_among_those_that_count_is_an_answer(self):
        breaker = Breaker("payments", counts=(PartnerError,))

        assert breaker.is_failure(PartnerError()) is True
        assert breaker.is_failure(CardDeclinedError()) is False
        # but our own mistake is none, and a partner that hangs has not answered
        assert breaker.is_failure(TypeError()) is None
        assert breaker.is_failure(SoftTimeLimitExceeded()) is True

    def test_what_is_ignored_says_nothing(self):
        breaker = Breaker("payments", ignores=(CardDeclinedError, SoftTimeLimitExceeded))

        assert breaker.is_failure(CardDeclinedError()) is None
        assert breaker.is_failure(SoftTimeLimitExceeded()) is None

    def test_a_programming_error_counts_where_it_is_named(self):
        assert Breaker("payments", counts=(AttributeError,)).is_failure(AttributeError()) is True


class TestOption:
    def test_a_name_is_made_a_breaker(self, memory_app):
        assert declare(memory_app, breaker="payments").breaker == Breaker("payments")

    def test_a_function_is_one_too(self, memory_app):
        def by_host(host):
            return host

        assert declare(memory_app, breaker=by_host).breaker == Breaker(by_host)

    def test_something_else_is_refused(self, memory_app):
        assert refusal(memory_app, breaker=7) == (
            "Task 'breaker.probe' has breaker=7. Give a name, as in 'payments' or '{host}', or a Breaker."
        )

    @pytest.mark.parametrize("name", ["{hots}", Breaker("feed:{hots}"), lambda hots: hots])
    def test_an_argument_that_does_not_exist_is_refused(self, memory_app, name):
        assert "the task has no argument 'hots'. Did you mean 'host'?" in refusal(memory_app, breaker=name)

    def test_one_name_with_two_sets_of_parameters_is_refused(self, memory_app):
        declare(memory_app, name="orders.charge", breaker=Breaker("payments", open_seconds=10))

        assert refusal(memory_app, name="orders.refund", breaker="payments") == (
            "Task 'orders.refund' and task 'orders.charge' declare the breaker 'payments' with different "
            "parameters. One breaker has one set of them: make one Breaker object, and give it to both."
        )

    def test_one_name_with_the_same_parameters_is_shared(self, memory_app):
        declare(memory_app, name="orders.charge", breaker=Breaker("payments", open_seconds=10))

        declare(memory_app, name="orders.refund", breaker=Breaker("payments", open_seconds=10))

    def test_another_application_may_have_other_parameters(self, make_app):
        declare(make_app(), breaker=Breaker("payments", open_seconds=10))

        declare(make_app(), name="orders.refund", breaker="payments")

    def test_a_task_without_one_does_not_pay_for_it(self, memory_app):
        layers = [layer.__name__ for layer in declare(memory_app).run_layers]

        assert "pass_breaker" not in layers
