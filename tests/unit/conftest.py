"""What unit tests share: an application on Kombu's in-memory transport, webhook receivers, a media folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from kombu.transport import memory

from tasks.webhooks.receiver import WebhookReceiver
from taskyard import create_app
from taskyard.conf import build_settings
from taskyard.retry import Fixed
from taskyard.signals import duplicate_found
from taskyard.tasks import failures
from tests.support.idempotent_fixtures import counting, idempotent
from tests.support.memory_state import MemoryStore
from tests.support.runs import fail
from tests.support.webhook_receivers import SECRET, RawServer

__all__ = ["counting", "idempotent"]


class FrozenClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.seconds = 100.0

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def make_app(settings: Any, clock: FrozenClock) -> Iterator[Callable[..., Any]]:
    """Make an application; keyword arguments are settings of the kit, `routing` is passed to `create_app`."""
    settings.CELERY_BROKER_URL = "memory://"
    settings.CELERY_BROKER_TRANSPORT = "memory"
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = {}
    settings.CELERY_RESULT_BACKEND = "cache+memory://"
    made = []

    def make(*, routing: dict[str, Any] | None = None, **given: Any) -> Any:
        app = create_app(
            "unit", settings=build_settings(given), clock=clock, set_as_current=False, **(routing or {})
        )
        # now, while the settings above are in force
        assert app.conf.broker_url == settings.CELERY_BROKER_URL
        # by default Celery gives a task declared here to every other application of the process, too
        app.task = partial(app.task, shared=False)
        # a unit test asks no server, least of all that of a platform which happens to run here
        app.state_store = MemoryStore(clock)
        made.append(app)
        return app

    yield make
    for app in made:
        app.close()
    memory.Channel.queues.clear()


@pytest.fixture
def memory_app(make_app: Callable[..., Any]) -> Any:
    return make_app()


@pytest.fixture
def take_messages(memory_app: Any) -> Callable[..., list[Any]]:
    """Take all messages that wait on a queue, oldest first."""

    def take(queue: str = "default") -> list[Any]:
        with memory_app.connection_for_read() as connection:
            channel = connection.default_channel
            return list(iter(lambda: channel.basic_get(queue, no_ack=True), None))

    return take


@pytest.fixture
def recorded_failures() -> Iterator[list[failures.Failure]]:
    """Take the place of the dead letter store."""
    recorded: list[failures.Failure] = []
    before = list(failures._sinks)
    failures.set_sink(recorded.append)
    yield recorded
    failures.set_sink(before[0] if before else None)


@pytest.fixture
def declare(memory_app: Any) -> Callable[..., Any]:
    """Declare a task with a body."""

    def declare(body: Callable[..., Any] = fail, **options: Any) -> Any:
        memory_app.task(name="outcome.probe", **options)(body)
        return memory_app.tasks["outcome.probe"]

    return declare


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Callable[[], list[Any]]:
    """Return the lines that the kit has logged about runs."""
    caplog.set_level(logging.DEBUG, "taskyard")
    return lambda: [record.msg for record in caplog.records if record.name == "taskyard.task"]


@pytest.fixture
def store(memory_app: Any) -> MemoryStore:
    """The state store of `memory_app`, in memory."""
    return memory_app.state_store


@pytest.fixture
def pass_time(clock: FrozenClock) -> Callable[[float], None]:
    """Move the test's clock by so many seconds."""

    def pass_time(seconds: float) -> None:
        clock.moment += timedelta(seconds=seconds)

    return pass_time


@pytest.fixture
def unique(declare: Any, store: MemoryStore, recorded_failures: Any) -> Callable[..., Any]:
    """Declare a unique task; without a body, it only counts its runs in `unique.runs`."""
    runs = []

    def count(tenant: Any, value: Any = None) -> None:
        runs.append(value)

    def unique(body: Callable[..., Any] = count, **options: Any) -> Any:
        return declare(body, **{"unique_for": 60, "unique_key": "tenant", "ignore_result": False} | options)

    unique.runs = runs
    return unique


@pytest.fixture
def duplicates() -> Iterator[list[dict[str, Any]]]:
    """Collect what `duplicate_found` says."""
    found = []

    def receive(**arguments: Any) -> None:
        found.append(arguments)

    duplicate_found.connect(receive)
    yield found
    duplicate_found.disconnect(receive)


@pytest.fixture
def media_root(settings: Any, tmp_path: Path) -> Path:
    """Give the test a media folder of its own."""
    settings.MEDIA_ROOT = tmp_path / "media"
    return settings.MEDIA_ROOT


@pytest.fixture
def private_allowed(settings: Any) -> None:
    """Let webhooks go to 127.0.0.1."""
    settings.WEBHOOKS_ALLOW_PRIVATE = True


@pytest.fixture
def receiver(private_allowed: None) -> Iterator[WebhookReceiver]:
    """A receiver of webhooks that checks signatures."""
    with WebhookReceiver(SECRET) as running:
        yield running


@pytest.fixture
def answering(private_allowed: None) -> Iterator[Callable[[bytes], str]]:
    """Start a receiver that answers every request with the given bytes; returns the endpoint's URL."""
    servers = []

    def start(answer: bytes) -> str:
        server = RawServer(answer)
        servers.append(server)
        return server.url

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def letter_app(memory_app: Any, db: None) -> Iterator[Any]:
    """The application on the in-memory transport as the current one, with the probe task of dead letters."""
    from tests.support.letters import TASK, charge  # models, after Django is set up

    before = current_app._get_current_object()
    memory_app.task(name=TASK, redact=("card",), retry=Fixed(seconds=1))(charge)
    memory_app.set_current()
    yield memory_app
    before.set_current()
