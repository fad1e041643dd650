"""Runs of tasks as a worker does them, without a worker."""

from __future__ import annotations

from taskyard.clock import SYSTEM_CLOCK


class PartnerError(Exception):
    """What the tasks of these tests fail with."""


class UnreadableError(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def raising(error):
    """A task body that raises."""

    def body(*args, **kwargs):
        raise error

    return body


def fail(*args, **kwargs):
    raise PartnerError("boom")


def do_nothing(*args, **kwargs):
    """Succeeds."""


def add_one(order):
    return order + 1


def now() -> float:
    return SYSTEM_CLOCK.now().timestamp()


def run(
    task, *args, task_id="id-1", headers=None, retries=0, queue="default", priority=5, stored=False, **kwargs
):
    """Run a task as a worker does with a message that has come from a queue."""
    task.push_request(
        id=task_id,
        task=task.name,
        args=args,
        kwargs=kwargs,
        retries=retries,
        called_directly=False,
        is_eager=False,
        correlation_id="corr-1",
        headers=headers or {},
        delivery_info={"exchange": queue, "routing_key": queue, "priority": priority, "redelivered": False},
        ignore_result=not stored,
    )
    try:
        return task(*args, **kwargs)
    finally:
        task.pop_request()


def run_message(task, message, **options):
    """Run a message that was taken from a queue, as its worker does; the test's clock has stamped it."""
    args, kwargs, _ = message.decode()
    headers = {**message.headers, "first_published_at": now()}
    return run(task, *args, task_id=message.headers["id"], headers=headers, stored=True, **options, **kwargs)


def published_ago(seconds):
    return {"first_published_at": now() - seconds, "correlation_id": "corr-1"}
