"""Retry policies: delays stay within bounds, every policy ends, what a partner asks for is honoured."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskyard.errors import TaskDefinitionError
from taskyard.queues import DEFAULT_QUEUES
from taskyard.retry import (
    RETRY_AFTER_LIMIT_SECONDS,
    Decision,
    Exponential,
    Fixed,
    Never,
    RetryPolicy,
    full_jitter,
    no_jitter,
    retry_after_seconds,
)

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
seconds = st.floats(min_value=0, max_value=1e9, allow_nan=False)
factors = st.one_of(st.floats(min_value=1, max_value=1e6), st.integers(min_value=1, max_value=1000))
attempts = st.one_of(st.integers(min_value=1, max_value=100), st.integers(min_value=1, max_value=10**12))
spreads = st.sampled_from([full_jitter, no_jitter])


def decide(policy: RetryPolicy, error: BaseException | None = None, *, retries=0, age_seconds=0.0, now=NOW):
    return policy.decide(error or ValueError("x"), retries=retries, age_seconds=age_seconds, now=now)


class PartnerError(Exception):
    """An error as HTTP clients raise it."""

    def __init__(self, **attributes: object) -> None:
        super().__init__("partner")
        vars(self).update(attributes)


def asked_by_header(value: object) -> PartnerError:
    return PartnerError(response=SimpleNamespace(headers={"Retry-After": value}))


@given(base=seconds, factor=factors, cap=seconds, attempt=attempts, spread=spreads)
@example(base=2, factor=2, cap=600, attempt=10**400, spread=no_jitter)
def test_exponential_delays_stay_between_zero_and_the_cap(base, factor, cap, attempt, spread):
    policy = Exponential(base_seconds=base, factor=factor, cap_seconds=cap, spread=spread)

    assert 0 <= policy.delay_seconds(attempt) <= cap
    assert 0 <= policy.jitter(policy.delay_seconds(attempt)) <= cap
    assert 0 <= decide(policy).delay_seconds <= cap


@given(base=seconds, factor=factors, cap=seconds, attempt=attempts)
def test_exponential_delays_never_shrink_from_one_retry_to_the_next(base, factor, cap, attempt):
    policy = Exponential(base_seconds=base, factor=factor, cap_seconds=cap, spread=no_jitter)

    assert policy.delay_seconds(attempt) <= policy.delay_seconds(attempt + 1)


def test_exponential_doubles_from_two_seconds_up_to_ten_minutes_unless_told_otherwise():
    policy = Exponential()

    assert [policy.delay_seconds(attempt) for attempt in range(1, 12)] == [
        2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600,
    ]  # fmt: skip


def test_exponential_takes_another_base_factor_and_cap():
    policy = Exponential(base_seconds=1, factor=3, cap_seconds=20)

    assert [policy.delay_seconds(attempt) for attempt in range(1, 6)] == [1, 3, 9, 20, 20]


def test_full_jitter_spreads_over_the_whole_delay():
    drawn = [full_jitter(100.0) for _ in range(2000)]

    assert min(drawn) < 10
    assert max(drawn) > 90
    assert 40 < sum(drawn) / len(drawn) < 60


def test_jitter_is_on_by_default_and_can_be_turned_off():
    assert len({decide(Exponential(max_retries=9), retries=8).delay_seconds for _ in range(20)}) > 1
    assert {
        decide(Exponential(max_retries=9, spread=no_jitter), retries=8).delay_seconds for _ in range(20)
    } == {512}


@given(value=seconds, attempt=attempts)
def test_fixed_delays_are_all_the_same(value, attempt):
    assert Fixed(seconds=value).delay_seconds(attempt) == value


def simulate(policy: RetryPolicy, *, run_seconds: float, limit: int) -> tuple[int, float, str]:
    """Fail for ever; return retries, the age at the last planned start, and why it ended."""
    age, last_start = 0.0, 0.0
    for retries in range(limit):
        age += run_seconds
        decision = decide(policy, retries=retries, age_seconds=age)
        if not decision.is_retry:
            return retries, last_start, decision.reason
        age += decision.delay_seconds
        last_start = age
    pytest.fail(f"still retrying after {limit} runs: {policy}")


policies = st.one_of(
    st.builds(
        Exponential,
        max_retries=st.integers(0, 50),
        max_age_seconds=st.one_of(st.none(), st.floats(0, 1e6)),
        base_seconds=st.floats(0, 100),
        factor=st.floats(1, 10),
        spread=spreads,
    ),
    st.builds(
        Fixed,
        max_retries=st.integers(0, 50),
        max_age_seconds=st.one_of(st.none(), st.floats(0, 1e6)),
        seconds=st.floats(0, 1000),
    ),
    st.builds(Never),
)


@given(policy=policies, run_seconds=st.floats(0, 100))
def test_a_task_that_always_fails_ends_within_the_number_of_retries(policy, run_seconds):
    retries, last_start, reason = simulate(policy, run_seconds=run_seconds, limit=100)

    assert retries <= policy.max_retries
    assert policy.max_age_seconds is None or last_start <= policy.max_age_seconds
    exhausted = "not_retryable" if isinstance(policy, Never) else "retries_exhausted"
    assert reason == (exhausted if retries == policy.max_retries else "age_exceeded")


@given(
    max_age=st.floats(0, 1e6),
    base=st.floats(0, 100),
    cap=st.floats(0, 1000),
    run_share=st.floats(0.01, 2),
    spread=spreads,
)
def test_a_task_bounded_by_age_alone_never_starts_after_that_age(max_age, base, cap, run_share, spread):
    policy = Exponential(
        max_retries=None, max_age_seconds=max_age, base_seconds=base, cap_seconds=cap, spread=spread
    )

    retries, last_start, reason = simulate(policy, run_seconds=max(max_age * run_share, 0.001), limit=1100)

    assert reason == "age_exceeded"
    assert last_start <= max_age
    assert retries <= 100 / run_share


@pytest.mark.parametrize("spec", DEFAULT_QUEUES, ids=lambda spec: spec.name)
def test_the_policy_of_every_queue_ends_and_backs_off(spec):
    retries, last_start, _ = simulate(spec.retry, run_seconds=spec.time_limit_seconds, limit=3000)

    assert retries >= 3
    assert last_start <= 25 * 3600
    assert isinstance(spec.retry, Exponential)


def test_a_policy_without_a_bound_is_refused():
    with pytest.raises(TaskDefinitionError) as caught:
        Exponential(max_retries=None)

    assert str(caught.value) == (
        "Exponential has no bound. Give max_retries or max_age_seconds: nothing retries for ever."
    )


@pytest.mark.parametrize("bound", [-1, math.nan, math.inf])
@pytest.mark.parametrize("name", ["max_retries", "max_age_seconds"])
def test_a_bound_that_bounds_nothing_is_refused(name, bound):
    with pytest.raises(TaskDefinitionError) as caught:
        Fixed(seconds=1, **{name: bound})

    assert str(caught.value) == f"Fixed has {name}={bound}. It must be a number, 0 or more."


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_a_fixed_delay_that_is_no_time_is_refused(value):
    with pytest.raises(TaskDefinitionError, match=r"Fixed has seconds=.*It must be a number, 0 or more"):
        Fixed(seconds=value)


@pytest.mark.parametrize(
    "options",
    [
        {"base_seconds": -1},
        {"base_seconds": math.nan},
        {"cap_seconds": -1},
        {"cap_seconds": math.inf},
        {"factor": 0.5},
        {"factor": math.nan},
        {"factor": math.inf},
    ],
)
def test_impossible_exponential_values_are_refused(options):
    with pytest.raises(TaskDefinitionError) as caught:
        Exponential(**options)

    assert str(caught.value).endswith("Base and cap must be 0 or more, the factor 1 or more.")


def test_zero_is_not_unset():
    assert decide(Fixed(seconds=0)) == Decision(0.0)
    assert decide(Fixed(seconds=0, max_retries=0)) == Decision(None, "retries_exhausted")
    assert decide(Fixed(seconds=0, max_age_seconds=0)) == Decision(0.0)
    assert decide(Fixed(seconds=0, max_age_seconds=0), age_seconds=0.1) == Decision(None, "age_exceeded")
    assert decide(Exponential(base_seconds=0)) == Decision(0.0)
    assert decide(Exponential(cap_seconds=0)) == Decision(0.0)
    assert Fixed(seconds=0, max_retries=None, max_age_seconds=0).max_age_seconds == 0


def test_never_means_never():
    assert decide(Never()) == Decision(None, "not_retryable")
    assert Never().delay_seconds(1) == 0


def test_never_on_wins_over_on():
    policy = Fixed(seconds=1, on=(OSError,), never_on=(FileNotFoundError,))

    assert decide(policy, OSError()).is_retry
    assert decide(policy, ConnectionError()).is_retry
    assert decide(policy, FileNotFoundError()) == Decision(None, "not_retryable")
    assert decide(policy, ValueError()) == Decision(None, "not_retryable")


def test_what_is_not_retryable_says_so_even_when_the_retries_have_ended():
    assert decide(Fixed(seconds=1, max_retries=0, on=(OSError,)), ValueError()).reason == "not_retryable"


@pytest.mark.parametrize(
    ("asked", "delay"),
    [
        (30, 30),
        (0, 1),  # the policy's own delay is longer
        ("30", 30),
        ("30.5", 30.5),
        (" 30 ", 30),
        (b"30", 30),
        (timedelta(minutes=2), 120),
        (-30, 1),
        (1e300, RETRY_AFTER_LIMIT_SECONDS),
        ("1e999", RETRY_AFTER_LIMIT_SECONDS),
        pytest.param(10**400, RETRY_AFTER_LIMIT_SECONDS, id="huge"),
        pytest.param(-(10**400), 1, id="hugely negative"),
        (math.inf, RETRY_AFTER_LIMIT_SECONDS),
        (math.nan, 1),
        ("nan", 1),
        ("", 1),
        ("soon", 1),
        (object(), 1),
        (True, 1),
        (None, 1),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        ("Sun, 29 Mar 2026 01:31:30 -0000", 90),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 1),
        (format_datetime(NOW + timedelta(days=9), usegmt=True), RETRY_AFTER_LIMIT_SECONDS),
        ("Wed, 21 Oct 99999 07:28:00 GMT", 1),
    ],
)
def test_retry_after_is_honoured_where_it_makes_sense(asked, delay):
    policy = Fixed(seconds=1)

    assert decide(policy, PartnerError(retry_after=asked)) == Decision(delay)
    assert decide(policy, asked_by_header(asked)) == Decision(delay)


class RaisingError(Exception):
    """As httpx does for a request that was never set."""

    @property
    def response(self):
        raise RuntimeError("not set")


@pytest.mark.parametrize(
    "error",
    [
        RaisingError(),
        PartnerError(response=None),
        PartnerError(response=SimpleNamespace(headers=None)),
        PartnerError(response=SimpleNamespace(headers=[("Retry-After", "30")])),
        PartnerError(response="text"),
    ],
)
def test_an_error_of_any_shape_is_judged_without_raising(error):
    assert decide(Fixed(seconds=1), error) == Decision(1)


@given(st.one_of(st.text(), st.binary(), st.floats(), st.integers(), st.lists(st.integers()), st.none()))
def test_any_retry_after_gives_a_time_or_none(asked):
    found = retry_after_seconds(asked_by_header(asked), now=NOW)

    assert found is None or found >= 0


def test_the_attribute_comes_before_the_header():
    error = PartnerError(retry_after=0, response=SimpleNamespace(headers={"Retry-After": "50"}))

    assert retry_after_seconds(error, now=NOW) == 0


def test_retry_after_can_be_ignored():
    assert decide(Fixed(seconds=1, honour_retry_after=False), PartnerError(retry_after=30)) == Decision(1)


def test_retry_after_does_not_lengthen_the_age_limit():
    policy = Fixed(seconds=1, max_age_seconds=60)

    assert decide(policy, PartnerError(retry_after=61)) == Decision(None, "age_exceeded")
    assert decide(policy, PartnerError(retry_after=30), age_seconds=30) == Decision(30)
    assert decide(policy, PartnerError(retry_after=30), age_seconds=30.5).reason == "age_exceeded"


def test_policies_are_values():
    assert Exponential(max_retries=3) == Exponential(max_retries=3)
    assert Exponential(max_retries=3) != Exponential(max_retries=4)
    assert Fixed(seconds=1) != Exponential()
    assert len({Fixed(seconds=1), Fixed(seconds=1), Fixed(seconds=2)}) == 2


def test_policies_are_immutable():
    policy = Exponential()

    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.max_retries = 9


def test_a_decision_of_no_delay_is_a_retry():
    assert Decision(0.0).is_retry
    assert not Decision(None, "x").is_retry


@pytest.mark.parametrize("policy", [Fixed, Exponential, Never])
def test_a_misspelt_parameter_is_a_wrong_declaration(policy):
    with pytest.raises(TaskDefinitionError) as refused:
        policy(max_retry=5)

    assert str(refused.value).startswith(
        f"{policy.__name__} has the unknown parameter 'max_retry'. Did you mean 'max_retries'? "
        "Its parameters are: "
    )
