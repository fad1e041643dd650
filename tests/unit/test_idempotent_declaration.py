"""A wrong declaration of an idempotent task is refused when the task meets its app."""

from __future__ import annotations

from datetime import timedelta

import pytest

from taskyard import IdempotentTask, Task
from taskyard.errors import TaskDefinitionError
from taskyard.tasks.idempotency import claim_once
from taskyard.tasks.idempotency_options import OPTIONS, ttl_seconds

KEY = {"base": IdempotentTask, "idempotency_key": "order_id"}


def charge(order_id, currency="EUR"):
    """The task of these tests."""


@pytest.fixture
def refusal(declare):
    def refusal(**options) -> str:
        with pytest.raises(TaskDefinitionError) as refused:
            declare(charge, **options)
        return str(refused.value)

    return refusal


@pytest.mark.parametrize(
    "key",
    [
        "order_id",
        "charge:{order_id}:{currency}",
        "*",
        lambda order_id: f"order-{order_id}",
        lambda **arguments: "-".join(map(str, arguments.values())),
    ],
)
def test_a_key_that_can_work_is_accepted(declare, key):
    task = declare(charge, base=IdempotentTask, idempotency_key=key)

    assert claim_once in task.run_layers


def test_other_tasks_have_no_such_layer(declare):
    assert claim_once not in declare(charge).run_layers


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("oder_id", "has idempotency_key='oder_id', but the task has no argument 'oder_id'. "
                    "Did you mean 'order_id'? Its arguments are: order_id, currency."),
        ("{order_id}:{curency}", "but the task has no argument 'curency'. Did you mean 'currency'?"),
        (lambda oder_id: 1, "but the task has no argument 'oder_id'. Did you mean 'order_id'?"),
        ("{order_id", "which is no template"),
        ("{order_id}{currency}", "in which nothing separates two fields"),
        (7, "has idempotency_key=7. Give the name of an argument"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_work_is_refused(refusal, key, problem):
    assert problem in refusal(base=IdempotentTask, idempotency_key=key)


@pytest.mark.parametrize("options", [{}, {"idempotency_key": None}, {"idempotency_key": ""}])
def test_no_key_is_refused(refusal, options):
    shown = options.get("idempotency_key")

    assert refusal(base=IdempotentTask, **options) == (
        f"Task 'outcome.probe' has base=IdempotentTask and idempotency_key={shown!r}. Say what makes two "
        "calls the same work: the name of an argument, a template like 'charge:{order_id}', or a function."
    )


@pytest.mark.parametrize("option", sorted(set(OPTIONS) - {"on_state_loss"}))
def test_a_plain_task_is_told_the_base_that_has_the_option(refusal, option):
    assert refusal(**{option: "order_id"}) == (
        f"Task 'outcome.probe' has the option '{option}', which is one of IdempotentTask. "
        "Give base=IdempotentTask, too."
    )


def test_a_class_of_its_own_is_told_it_too(refusal):
    class Own(Task):
        abstract = True
        idempotency_key = "order_id"

    assert refusal(base=Own) == (
        "Task 'outcome.probe' has idempotency_key='order_id', which is an option of IdempotentTask. "
        "Give base=IdempotentTask, too."
    )


@pytest.mark.parametrize(
    ("option", "suggestion"),
    [("idempotency_keys", "idempotency_key"), ("idempotence_ttl", "idempotency_ttl")],
)
@pytest.mark.parametrize("base", [Task, IdempotentTask])
def test_a_misspelt_option_is_suggested(refusal, base, option, suggestion):
    assert f"has the unknown option {option!r}. Did you mean {suggestion!r}?" in refusal(
        base=base, **{option: 1}
    )


@pytest.mark.parametrize(
    "ttl", [0, -1, 1e30, float("inf"), float("nan"), timedelta(0), timedelta.max, True, "1 day"]
)
def test_a_time_that_is_none_is_refused(refusal, ttl):
    assert refusal(**KEY, idempotency_ttl=ttl) == (
        f"Task 'outcome.probe' has idempotency_ttl={ttl!r}. Give seconds above 0 or a timedelta, "
        "up to 10 years: how long a key is remembered."
    )


@pytest.mark.parametrize(
    ("ttl", "seconds"),
    [(None, None), (60, 60), (0.5, 0.5), (timedelta(days=1), 86_400), (timedelta(seconds=1), 1)],
)
def test_a_time_is_seconds_or_a_timedelta(declare, ttl, seconds):
    assert ttl_seconds(declare(charge, **KEY, idempotency_ttl=ttl)) == seconds


@pytest.mark.parametrize("scope", ["", 7])
def test_a_scope_is_a_text(refusal, scope):
    assert refusal(**KEY, idempotency_scope=scope) == (
        f"Task 'outcome.probe' has idempotency_scope={scope!r}. Give a text that tasks with the same keys "
        "share, or leave it out for the task's own name."
    )


@pytest.mark.parametrize(
    ("option", "value", "advice"),
    [
        ("on_duplicate", "snoze", " Did you mean 'snooze'? Use 'snooze' or 'skip'."),
        ("on_duplicate", None, " Use 'snooze' or 'skip'."),
        ("on_state_loss", "refused", " Did you mean 'refuse'? Use 'refuse' or 'run'."),
    ],
)
def test_a_choice_that_does_not_exist_is_refused(refusal, option, value, advice):
    assert refusal(**KEY, **{option: value}) == f"Task 'outcome.probe' has {option}={value!r}.{advice}"


def test_a_claim_is_no_option(refusal):
    assert "unknown option 'claim'" in refusal(**KEY, claim=1)
