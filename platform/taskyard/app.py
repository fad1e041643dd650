"""create_app(): the preconfigured Celery application."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any

import celery

from taskyard.brokers import broker_for
from taskyard.celery_options import build_options
from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.conf import Settings, get_settings
from taskyard.errors import ConfigurationError
from taskyard.priority import Priority
from taskyard.retry import Never
from taskyard.routing import ContentRule, NameRule, QueueRouter
from taskyard.state import StateStore, state_store
from taskyard.tasks import arguments, call_options, definition, publish, unfit_options, unique, unique_publish
from taskyard.tasks.direct import DirectPublish
from taskyard.tasks.representations import shown_representations
from taskyard.tasks.task_ids import new_task_id

# Below these, stock Celery loses children without a bound and Kombu has no batch publish.
FLOORS = {"celery": (5, 7), "kombu": (5, 7)}


class TaskyardCelery(celery.Celery):
    """A Celery application with Taskyard's configuration; everything else is Celery's.

    Made by `create_app`, not directly.
    """

    task_cls = "taskyard.tasks.base:Task"
    amqp_cls = "taskyard.amqp:AMQP"

    def __init__(self, main: str, *, options: TaskyardOptions, **kwargs: Any) -> None:
        self.taskyard = options
        super().__init__(main, **kwargs)
        self.loader.override_backends = {
            "redis": "taskyard.results:RedisBackend",
            "rediss": "taskyard.results:RedisBackend",
            "sentinel": "taskyard.results:SentinelBackend",
        }

    def on_configure(self) -> None:
        """Celery's hook at the first use of the configuration: never at import."""
        self._config_source = build_options(self.settings, self.router)

    @cached_property
    def settings(self) -> Settings:
        """The validated settings."""
        return self.taskyard.settings or get_settings()

    @cached_property
    def state_store(self) -> StateStore:
        """Where the claims and leases of its tasks are."""
        return state_store(self.settings)

    @cached_property
    def router(self) -> QueueRouter:
        """Decides the queue of every publish."""
        return QueueRouter(
            self.settings.queue_table,
            name_rules=self.taskyard.name_rules,
            content_rules=self.taskyard.content_rules,
        )

    @property
    def publish_timeout_seconds(self) -> float:
        return self.settings.publish_timeout_seconds

    def connection_for_write(self, url: str | None = None, **kwargs: Any) -> Any:
        """Connect for publishing: with the short timeouts that the publish budget needs."""
        options = broker_for(self.settings).publish_transport_options(self.settings)
        kwargs["transport_options"] = {
            **self.conf.broker_transport_options,
            **options,
            **(kwargs.get("transport_options") or {}),
        }
        return super().connection_for_write(url, **kwargs)

    def prepare_task(self, task: Any) -> None:
        """Give a newly bound task what its queue says, and refuse what cannot work."""
        if not definition.is_kit_task_name(task.name):
            # Celery retries its own where they ask for it; what else fails in one is a dead letter at once
            task.retry_policy, task.on_exhausted = Never(), "dead_letter"
            return
        table = self.settings.queue_table
        queue = self.router.home_queue(task.name, task.queue)
        spec = table.require(queue, where=f"Task {task.name!r}")
        definition.check_values(task)
        definition.check_limits(task, spec)
        unfit_options.check_retries(task, table)
        if task.retry_policy is None:
            task.retry_policy = spec.retry
        if task.on_exhausted is None:
            task.on_exhausted = spec.on_exhausted

    def check_arguments(self, name: str, args: Sequence[Any] | None, kwargs: dict[str, Any] | None) -> None:
        """Refuse arguments that are not JSON-native or too large; see `taskyard.tasks.arguments`."""
        arguments.check_arguments(
            name,
            args or (),
            kwargs or {},
            warn_bytes=self.settings.argument_warn_bytes,
            limit_bytes=self.settings.argument_limit_bytes,
        )

    def send_task(self, name: str, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Publish a task by name; every publish, also of a canvas or a retry, comes through here.

        Takes Celery's options, and `on_commit`: False publishes inside an open transaction at once.

        Returns:
            an `AsyncResult`, also where the publish waits for the commit.

        Raises:
            ArgumentError: the arguments are not JSON-native or too large, or an option is unknown.
            UnknownQueueError: the queue does not exist.
            PublishError: the broker did not take the message within the budget.
        """
        task_id = options.pop("task_id", None) or new_task_id()
        task = options.get("task_type") or self._tasks.get(name)
        on_commit = options.pop("on_commit", getattr(task, "on_commit", True))
        self.prepare_call(name, args, kwargs, task_id, options)
        call = unique.take_unique_call(name, task, args, kwargs, options)
        if publish.must_wait_for_commit(on_commit):
            return self._send_after_commit(name, args, kwargs, task_id, options, call)
        return self._send_unique(name, args, kwargs, task_id, options, call)

    def prepare_call(self, name: str, args: Any, kwargs: Any, task_id: str, options: dict[str, Any]) -> None:
        """Check a call, and complete its options: priority, headers, and the text that may be shown of it.

        Raises: as `send_task`.
        """
        task = options.get("task_type") or self._tasks.get(name)
        if definition.is_kit_task_name(name):
            call_options.check_options(name, options)
            self.check_arguments(name, args, kwargs)
        queue = options.get("queue")
        if isinstance(queue, str):
            self.settings.queue_table.require(queue, where=f"The call of task {name!r}")
        if options.get("priority") is None:
            # Kombu would send 0, which is the lowest
            options["priority"] = int(
                Priority.NORMAL if getattr(task, "priority", None) is None else task.priority
            )
        definition.check_priority(options["priority"], where=f"The call of task {name!r}")
        options["headers"] = publish.stamp_headers(
            options.get("headers"), task_id=task_id, clock=self.taskyard.clock
        )
        self._redact(task, args, kwargs, options)

    def _send_unique(
        self,
        name: str,
        args: Any,
        kwargs: Any,
        task_id: str,
        options: dict[str, Any],
        call: unique.UniqueCall | None,
    ) -> Any:
        if call is None:
            return self._send_now(name, args, kwargs, task_id, options)
        return unique_publish.publish_unique(
            self,
            options.get("task_type") or self._tasks.get(name),
            call,
            task_id,
            options,
            lambda final: self._send_now(name, args, kwargs, task_id, final),
        )

    def _redact(self, task: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> None:
        shown = None if task is None else shown_representations(task, args or (), kwargs or {})
        if shown is not None:
            options["argsrepr"], options["kwargsrepr"] = shown

    @cached_property
    def direct(self) -> DirectPublish:
        """The short way of plain publishes."""
        return DirectPublish(self)

    def _send_once(self, name: str, args: Any, kwargs: Any, task_id: str, options: dict[str, Any]) -> Any:
        result = self.direct.send(name, args, kwargs, task_id, options)
        if result is not None:
            return result
        result = super().send_task(name, args, kwargs, task_id=task_id, **dict(options))
        self.direct.learn(name, args, kwargs, options)
        return result

    def _send_now(self, name: str, args: Any, kwargs: Any, task_id: str, options: dict[str, Any]) -> Any:
        return publish.publish_within_budget(
            lambda: self._send_once(name, args, kwargs, task_id, options),
            budget_seconds=self.settings.publish_timeout_seconds,
            task_name=name,
            task_id=task_id,
        )

    def _send_after_commit(
        self,
        name: str,
        args: Any,
        kwargs: Any,
        task_id: str,
        options: dict[str, Any],
        call: unique.UniqueCall | None,
    ) -> Any:
        # As they are now: the caller may go on to change them. A producer may be closed by then.
        args, kwargs = copy.deepcopy(args), copy.deepcopy(kwargs)
        options = {key: value for key, value in options.items() if key not in ("producer", "publisher")}
        result = (options.get("result_cls") or self.AsyncResult)(task_id)

        if call is not None:
            result.is_duplicate = None

        def send() -> None:
            sent = self._send_unique(name, args, kwargs, task_id, options, call)
            if call is not None:
                # which call this one repeats is known now
                result.id, result.is_duplicate = sent.id, sent.is_duplicate

        publish.after_commit(send)
        result.ignored = options.get("ignore_result", True)
        parent = self.current_worker_task
        if parent is not None and options.get("add_to_parent", True):
            parent.add_trail(result)
        return result


class TaskyardOptions:
    """What `create_app` was given; read at the first use of the configuration."""

    def __init__(
        self,
        *,
        settings: Settings | None,
        name_rules: Sequence[NameRule],
        content_rules: Sequence[ContentRule],
        clock: Clock,
    ) -> None:
        self.settings = settings
        self.name_rules = tuple(name_rules)
        self.content_rules = tuple(content_rules)
        self.clock = clock


def create_app(
    name: str,
    *,
    settings: Settings | None = None,
    name_rules: Sequence[NameRule] = (),
    content_rules: Sequence[ContentRule] = (),
    clock: Clock = SYSTEM_CLOCK,
    set_as_current: bool = True,
) -> TaskyardCelery:
    """Return the preconfigured Celery application of a Django project.

    Args:
        name: the application's name, usually that of the project.
        settings: validated settings; those of the Django project (`TASKYARD`) when None.
        name_rules: route tasks by name pattern, for tasks that name no queue.
        content_rules: route tasks by name, arguments and headers, after the name rules.
        clock: where the time for message headers comes from.
        set_as_current: make it the application that `@shared_task` and `celery.current_app` use; False for a
            second one beside the project's, as in tests.

    Nothing is read or connected here: settings are validated at the first use.

    Raises:
        ConfigurationError: Celery or Kombu is older than the floor.
    """
    check_floors()
    app = TaskyardCelery(
        name,
        options=TaskyardOptions(
            settings=settings, name_rules=name_rules, content_rules=content_rules, clock=clock
        ),
        set_as_current=set_as_current,
    )
    app.autodiscover_tasks()
    return app


def check_floors() -> None:
    """Refuse versions of Celery and Kombu that cannot keep the promises."""
    for package, floor in FLOORS.items():
        installed = version(package)
        if tuple(int(part) for part in installed.split(".")[:2]) < floor:
            wanted = ".".join(map(str, floor))
            raise ConfigurationError(
                f"{package} {installed} is installed; Taskyard needs {wanted} or newer. "
                f"Install it with: pip install '{package}>={wanted}'"
            )
