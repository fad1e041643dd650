"""A wrong declaration of a task is refused when the task meets its app, with the right name suggested."""

from __future__ import annotations

import pytest

from taskyard import Exponential, Fixed, IdempotentTask, Never, Priority
from taskyard.errors import TaskDefinitionError, UnknownQueueError
from taskyard.queues import DEFAULT_QUEUES
from taskyard.tasks.base import Task


def declare(app, **options):
    """Declare a task and make it meet its app, as a worker or the first call does."""

    @app.task(**({"name": "definition.probe"} | options))
    def probe(order_id=None, card_number=None):
        return order_id

    return app.tasks[probe.name]


def refusal(app, **options) -> str:
    with pytest.raises(TaskDefinitionError) as caught:
        declare(app, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("option", "suggestion"),
    [
        ("soft_timelimit", " Did you mean 'soft_time_limit'?"),
        ("piority", " Did you mean 'priority'?"),
        ("retri", " Did you mean 'retry'?"),
        ("on_exausted", " Did you mean 'on_exhausted'?"),
        ("xyzzy", ""),
        # would replace the method
        ("delay", ""),
        ("apply_async", ""),
    ],
)
def test_an_unknown_option_is_refused_with_a_suggestion(memory_app, option, suggestion):
    assert refusal(memory_app, **{option: 1}) == (
        f"Task 'definition.probe' has the unknown option {option!r}.{suggestion} "
        "See platform/docs/guide/tasks.md for the options."
    )


@pytest.mark.parametrize(("value", "shown"), [(3, "3"), (Exponential, repr(Exponential)), (False, "False")])
def test_what_is_no_retry_policy_is_refused(memory_app, value, shown):
    assert refusal(memory_app, retry=value) == (
        f"Task 'definition.probe' has retry={shown}. "
        "Give a policy of taskyard.retry, as in Exponential(max_retries=5)."
    )


def test_no_retry_policy_is_that_of_the_queue(memory_app):
    assert declare(memory_app, queue="high", retry=None).retry_policy == DEFAULT_QUEUES[1].retry


def test_hooks_may_be_given_as_functions(memory_app):
    def remember(self, *args):
        """A hook."""

    task = declare(memory_app, on_failure=remember, before_start=remember)

    assert task.on_failure.__func__ is remember


def test_celerys_own_options_are_known(memory_app):
    task = declare(
        memory_app,
        max_retries=7,
        default_retry_delay=3,
        autoretry_for=(OSError,),
        retry_backoff=True,
        acks_late=True,
        track_started=True,
        rate_limit="5/m",
        serializer="json",
        expires=60,
        ignore_result=False,
    )

    assert task.max_retries == 7
    assert task.rate_limit == "5/m"


def test_all_options_of_the_kit_are_known(memory_app):
    policy = Fixed(seconds=1)

    task = declare(
        memory_app,
        queue="high",
        priority=Priority.URGENT,
        retry=policy,
        on_exhausted="drop",
        redact=("card_number",),
        soft_time_limit=1,
        time_limit=2,
        on_commit=False,
        idempotent="natural",
        idempotent_reason="reads only",
    )

    assert task.queue == "high"
    assert task.priority == 9
    assert task.retry_policy is policy
    assert task.on_exhausted == "drop"
    assert task.redact == ("card_number",)
    assert (task.soft_time_limit, task.time_limit) == (1, 2)
    assert task.on_commit is False
    assert task.idempotent == "natural"


def test_the_retry_option_leaves_celerys_retry_method_alone(memory_app):
    task = declare(memory_app, retry=Never())

    assert task.retry.__func__ is Task.retry
    assert task.retry_policy == Never()


def test_the_retry_option_works_for_a_task_class_too(memory_app):
    class Probe(memory_app.Task):
        name = "definition.by_class"
        retry = Never()

        def run(self): ...

    task = memory_app.register_task(Probe())

    assert task.retry_policy == Never()
    assert task.retry.__func__ is Task.retry


@pytest.mark.parametrize("spec", DEFAULT_QUEUES, ids=lambda spec: spec.name)
def test_what_a_task_does_not_state_is_that_of_its_queue(memory_app, spec):
    task = declare(memory_app, queue=spec.name)

    assert task.retry_policy == spec.retry
    assert task.on_exhausted == spec.on_exhausted


def test_the_queue_of_a_name_rule_gives_its_policy(make_app):
    from taskyard import NameRule

    app = make_app(routing={"name_rules": [NameRule("definition.*", "critical")]})

    assert declare(app).retry_policy == DEFAULT_QUEUES[0].retry


def test_policies_of_two_tasks_do_not_mix(memory_app):
    first = declare(memory_app, name="definition.first", queue="critical")
    second = declare(memory_app, name="definition.second", queue="high")
    third = declare(memory_app, name="definition.third", retry=Exponential(max_retries=9))

    assert first.retry_policy == DEFAULT_QUEUES[0].retry
    assert second.retry_policy == DEFAULT_QUEUES[1].retry
    assert third.retry_policy.max_retries == 9
    assert Task.retry_policy is None


def test_an_unknown_queue_is_refused_with_a_suggestion(memory_app):
    with pytest.raises(UnknownQueueError) as caught:
        declare(memory_app, queue="hihg")

    assert str(caught.value) == (
        "Task 'definition.probe' names the queue 'hihg', which does not exist. Did you mean 'high'? "
        "The queues are: critical, high, default, low, bulk."
    )


@pytest.mark.parametrize(("soft", "hard"), [(5, 5), (6, 5)])
def test_limits_that_contradict_each_other_are_refused(memory_app, soft, hard):
    assert refusal(memory_app, soft_time_limit=soft, time_limit=hard) == (
        f"Task 'definition.probe' has soft_time_limit={soft} and time_limit={hard}. "
        "The soft limit must be above 0 and below the hard limit (TY001)."
    )


@pytest.mark.parametrize("priority", [-1, 10, 255])
def test_an_impossible_priority_is_refused(memory_app, priority):
    assert refusal(memory_app, priority=priority) == (
        f"Task 'definition.probe' has priority={priority}. Priorities are 0 to 9, 9 the most urgent."
    )


@pytest.mark.parametrize("priority", [0, 5, 9, Priority.LOWEST])
def test_every_priority_in_range_is_taken(memory_app, priority):
    assert declare(memory_app, priority=priority).priority == priority


def test_an_unknown_end_of_the_retries_is_refused(memory_app):
    assert refusal(memory_app, on_exhausted="deadletter") == (
        "Task 'definition.probe' has on_exhausted='deadletter'. Did you mean 'dead_letter'? "
        "Use 'dead_letter' or 'drop'."
    )


def test_marking_an_argument_that_does_not_exist_is_refused(memory_app):
    assert refusal(memory_app, redact=("card_numbre",)) == (
        "Task 'definition.probe' redacts the argument 'card_numbre', which it does not have. "
        "Did you mean 'card_number'? Its arguments are: order_id, card_number."
    )


def test_marking_with_a_text_is_refused(memory_app):
    # the letters of a text are names too, of nothing
    assert refusal(memory_app, redact="card_number") == (
        "Task 'definition.probe' has redact='card_number'. Give a tuple of names."
    )


def test_any_name_may_be_marked_where_any_is_taken(memory_app):
    @memory_app.task(name="definition.options", redact=("token", "*"))
    def options(**given): ...

    assert memory_app.tasks["definition.options"].redact == ("token", "*")


def test_a_wrong_declaration_is_found_at_the_latest_when_the_worker_loads_the_tasks(memory_app):
    @memory_app.task(name="definition.lazy", priority=11)
    def lazy(): ...

    with pytest.raises(TaskDefinitionError):
        memory_app.finalize()


def test_celerys_own_tasks_are_retried_where_they_ask_for_it_only(memory_app):
    for name in ("celery.chord_unlock", "celery.backend_cleanup", "celery.starmap"):
        task = memory_app.tasks[name]

        assert task.retry_policy == Never()
        assert task.on_exhausted == "dead_letter"


def test_a_soft_limit_that_the_queue_s_hard_limit_comes_before_is_refused(memory_app):
    assert refusal(memory_app, soft_time_limit=400) == (
        "Task 'definition.probe' has soft_time_limit=400, but the hard limit of its queue 'default' is "
        "300 s. "
        "Give the task a time_limit above its soft limit, too."
    )


def test_a_call_with_an_impossible_priority_is_refused(memory_app):
    with pytest.raises(TaskDefinitionError, match=r"^The call of task 'definition.probe' has priority=12\. "):
        declare(memory_app).apply_async(priority=12)


class TestSelf:
    """The first argument of a bound task."""

    def test_without_bind_it_is_a_mistake(self, memory_app):
        @memory_app.task(name="definition.unbound")
        def unbound(self, order_id):
            return order_id

        with pytest.raises(TaskDefinitionError) as refused:
            memory_app.tasks["definition.unbound"]

        assert str(refused.value) == (
            "Task 'definition.unbound': its first argument is self, but bind=True is not set, so a call "
            "would have to pass it. Give bind=True, or remove the argument."
        )

    def test_a_retried_function_is_looked_into_too(self, memory_app):
        @memory_app.task(name="definition.unbound", autoretry_for=(OSError,))
        def unbound(self):
            """Celery wraps it."""

        with pytest.raises(TaskDefinitionError, match="bind=True is not set"):
            memory_app.tasks["definition.unbound"]

    def test_a_bound_one_and_a_class_are_right(self, memory_app):
        @memory_app.task(name="definition.bound", bind=True)
        def bound(self, order_id):
            return order_id

        class OfClass(Task):
            name = "definition.of_class"

            def run(self, order_id):
                return order_id

        assert memory_app.tasks["definition.bound"].apply((7,)).get() == 7
        assert memory_app.register_task(OfClass()).apply((7,)).get() == 7


class TestOptionsOfBases:
    def test_an_option_of_another_base_names_that_base(self, memory_app):
        text = refusal(memory_app, base=IdempotentTask, idempotency_key="order_id", singleton_key="order_id")

        assert text == (
            "Task 'definition.probe' has the option 'singleton_key', which is one of SingletonTask. "
            "Give base=SingletonTask, too."
        )

    def test_an_option_of_two_bases_names_both(self, memory_app):
        assert refusal(memory_app, on_state_loss="run").endswith(
            "which is one of IdempotentTask and SingletonTask. "
            "Give base=IdempotentTask or base=SingletonTask, too."
        )
