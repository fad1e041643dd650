"""Circuit breakers of tasks: the layer that parks them while what they call is down, a block for inside them.

@shared_task(name="orders.charge", breaker="payments")          one breaker
@shared_task(name="feeds.fetch", breaker="feed:{host}")         one for each value of an argument
@shared_task(name="feeds.fetch", breaker=Breaker("feeds", ...)) with parameters of its own

with breaker("api.example.com"): ...                            known only at run time
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from celery._state import get_current_worker_task

from taskyard.breakers.definition import Breaker
from taskyard.breakers.guard import Guard, Parked
from taskyard.breakers.outage import Outage
from taskyard.breakers.store import breaker_store
from taskyard.conf import DATABASE_STATE, Settings, get_settings
from taskyard.errors import TaskDefinitionError
from taskyard.tasks.call_keys import call_key, check_key_spec, shortened

if TYPE_CHECKING:
    from taskyard.tasks.run import Run

MAX_NAME_LENGTH = 200

# For each application, the breakers that its tasks declare: name as declared, parameters, first task.
_declared: WeakKeyDictionary[Any, dict[str, tuple[Breaker, str]]] = WeakKeyDictionary()
_no_store = Outage()


def is_needed(task: Any) -> bool:
    """Return whether runs of the task go through this layer."""
    return getattr(task, "breaker", None) is not None


def pass_breaker(run: Run, call_next: Callable[[], Any]) -> Any:
    task = run.task
    try:
        name = _name_of_call(task, run.args, run.kwargs)
    except TypeError:
        # The call is wrong, and the task's own code says how.
        run.log_start()
        return call_next()
    guard = _guard(task.breaker, name, task.app.settings)
    if guard is None:
        run.log_start()
        return call_next()
    try:
        guard.enter()
    except Parked:
        run.is_parked = True
        raise
    run.log_start()
    with guard.renewed():
        try:
            result = call_next()
        except BaseException as error:
            guard.leave(error, was_called=run.has_begun)
            raise
        guard.leave(None, was_called=run.has_begun)
        return result


@contextmanager
def breaker(what: str | Breaker, /, **values: Any) -> Iterator[None]:
    """Call something under a circuit breaker, inside a task.

    Args:
        what: the breaker's name, or a `Breaker` with parameters. A name that a task declares has
            the parameters declared there.
        values: for the fields of a template, as in `breaker("webhooks:{host}", host=host)`.

    Put only the call into the block, outside of a transaction: what comes before it is done each time.
    Where no state store answers, or it is the database, the call is made.

    Raises:
        Snooze: the breaker is open. Let it go through: the task is parked, without an attempt used up.
    """
    task = get_current_worker_task()
    app = getattr(task, "app", None)
    settings = getattr(app, "settings", None) or get_settings()
    definition = what if isinstance(what, Breaker) else _known(app, what)
    guard = _guard(definition, shortened(_filled(definition, values), MAX_NAME_LENGTH), settings)
    if guard is None:
        yield
        return
    guard.enter()
    with guard.renewed():
        try:
            yield
        except BaseException as error:
            guard.leave(error)
            raise
        guard.leave(None)


def check_declaration(task: Any) -> None:
    """Refuse a breaker that could never work, and make a name into a `Breaker`.

    Raises:
        TaskDefinitionError: names the option, its value and what to write instead.
    """
    if task.breaker is None:
        return
    where = f"Task {task.name!r} has breaker={task.breaker!r}"
    if not isinstance(task.breaker, Breaker):
        if not (isinstance(task.breaker, str) or callable(task.breaker)):
            raise TaskDefinitionError(f"{where}. Give a name, as in 'payments' or '{{host}}', or a Breaker.")
        task.breaker = Breaker(task.breaker)
    name = task.breaker.name
    if not _is_plain(name):
        check_key_spec(task, "breaker", name)
    if isinstance(name, str):
        _refuse_other_parameters(task, name)


def _refuse_other_parameters(task: Any, name: str) -> None:
    declared = _declared.setdefault(task.app, {})
    known, first = declared.setdefault(name, (task.breaker, task.name))
    if known != task.breaker and first != task.name:
        raise TaskDefinitionError(
            f"Task {task.name!r} and task {first!r} declare the breaker {name!r} with different parameters. "
            "One breaker has one set of them: make one Breaker object, and give it to both."
        )
    declared[name] = (task.breaker, first)


def _guard(definition: Breaker, name: str, settings: Settings) -> Guard | None:
    """Return what guards this run; None where no store can keep breakers."""
    if settings.state_url == DATABASE_STATE:
        # a system check has said so, too
        _no_store.note("STATE_URL is 'django-db', and they need Redis or Valkey")
        return None
    return Guard(breaker_store(settings), definition, name, lease_seconds=settings.lease_seconds)


def _is_plain(name: Any) -> bool:
    return isinstance(name, str) and "{" not in name and "}" not in name


def _name_of_call(task: Any, args: Any, kwargs: Any) -> str:
    name = task.breaker.name
    return name if _is_plain(name) else shortened(call_key(task, name, args, kwargs), MAX_NAME_LENGTH)


def _known(app: Any, name: str) -> Breaker:
    found = _declared.get(app, {}).get(name) if app is not None else None
    return Breaker(name) if found is None else found[0]


def _filled(definition: Breaker, values: dict[str, Any]) -> str:
    if callable(definition.name):
        return str(definition.name(**values))
    return definition.name.format(**values) if values else definition.name
