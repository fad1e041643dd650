"""Which queue a task goes to: its own declaration, then rules by name, rules by content, the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from taskyard.queues import QueueTable

# (task name, args, kwargs, headers) -> queue name, or None for "not mine"
ContentRule = Callable[[str, Sequence[Any], Mapping[str, Any], Mapping[str, Any]], str | None]


@dataclass(frozen=True, slots=True)
class NameRule:
    """Tasks whose name matches a shell-style pattern go to a queue.

    Args:
        pattern: for instance `"reports.*"`; case matters.
        queue: a queue of the table.
    """

    pattern: str
    queue: str


class QueueRouter:
    """Celery's `task_routes` entry that decides the queue of every publish.

    A queue given with the call (`apply_async(queue=...)`) wins over all of this.

    Args:
        table: the queues.
        name_rules: tried in order, the first match wins.
        content_rules: tried in order after the name rules; each gets name, args, kwargs and headers and
            returns a queue name or None.

    Raises:
        UnknownQueueError: a rule names a queue that does not exist; at construction for name rules, when
            publishing for content rules.
    """

    def __init__(
        self,
        table: QueueTable,
        *,
        name_rules: Sequence[NameRule] = (),
        content_rules: Sequence[ContentRule] = (),
    ) -> None:
        self.table = table
        self.name_rules = tuple(name_rules)
        self.content_rules = tuple(content_rules)
        for rule in self.name_rules:
            table.require(rule.queue, where=f"The routing rule for {rule.pattern!r}")

    def __call__(
        self,
        name: str,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        options: Mapping[str, Any],
        task: Any = None,
        **_: Any,
    ) -> dict[str, Any]:
        """Celery calls this at each publish."""
        declared = getattr(task, "queue", None)
        if declared is None:
            declared = self._by_name(name)
        if declared is None:
            declared = self._by_content(name, args or (), kwargs or {}, options.get("headers") or {})
        return {"queue": declared or self.table.default}

    def home_queue(self, name: str, declared: str | None) -> str:
        """Return the queue of a task as far as its declaration and name decide it; else the default queue."""
        return declared or self._by_name(name) or self.table.default

    def _by_name(self, name: str) -> str | None:
        for rule in self.name_rules:
            if fnmatchcase(name, rule.pattern):
                return rule.queue
        return None

    def _by_content(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], headers: Mapping[str, Any]
    ) -> str | None:
        for rule in self.content_rules:
            queue = rule(name, args, kwargs, headers)
            if queue is not None:
                return self.table.require(queue, where=f"A content rule for task {name!r}").name
        return None
