"""One run of the whole platform: check, prepare, supervise, leave nothing behind."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import connections

from taskyard.brokers.embedded import EmbeddedBroker
from taskyard.clock import SYSTEM_CLOCK, Clock
from taskyard.conf import Settings
from taskyard.errors import LaunchError
from taskyard.launch.admin_login import AdminLogin, ensure_admin_login
from taskyard.launch.database import migrate
from taskyard.launch.lock import FileLock, LockTakenError
from taskyard.launch.orphan_guard import OrphanGuard
from taskyard.launch.output import Console
from taskyard.launch.parts import Choice, port_needs
from taskyard.launch.ports import port_problems
from taskyard.launch.process import Process, ProcessSpec
from taskyard.launch.readiness import reachable_host
from taskyard.launch.stop_requests import StopRequests
from taskyard.launch.supervisor import Supervisor


class PlatformRun:
    """Runs the platform in the foreground.

    Args:
        settings: of the project.
        choice: what was chosen to run.
        parts: the processes of that choice, without the broker.
        console: where everything is shown.
        clock: for the time that the start takes.
    """

    def __init__(
        self,
        settings: Settings,
        choice: Choice,
        parts: Sequence[ProcessSpec],
        console: Console,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._settings = settings
        self._choice = choice
        self._parts = parts
        self._console = console
        self._clock = clock
        self._began = clock.monotonic()
        self._login: AdminLogin | None = None

    def run(self) -> int:
        """Run until a signal or a failure; return the exit code.

        Raises:
            LaunchError: something is taken, missing, or does not start. Nothing is left running.
        """
        with StopRequests() as requests, self._only_run():
            try:
                self._check()
                with OrphanGuard() as guard:
                    return self._run(requests, guard)
            except KeyboardInterrupt:
                self._console.say(f"Stopped ({requests.reason}) before everything was started.")
                return 0
            finally:
                self._tell_password()

    def _run(self, requests: StopRequests, guard: OrphanGuard) -> int:
        broker = self._embedded_broker(guard)
        try:
            processes = [Process(spec, guard) for spec in self._parts]
            if broker is not None:
                broker.start()
                self._console.say(f"The embedded broker runs on {broker.host}:{broker.port}.")
                processes.insert(0, broker.process)
            self._prepare_database()
            self._console.say(f"Starting {', '.join(spec.name for spec in self._parts)}.")
            return Supervisor(
                processes, self._console, requests, on_ready=self._announce, clock=self._clock
            ).run()
        finally:
            if broker is not None:
                broker.stop()

    @contextmanager
    def _only_run(self) -> Iterator[None]:
        lock = FileLock(self._settings.var_dir.absolute() / "up.lock")
        try:
            lock.acquire()
        except LockTakenError as error:
            raise LaunchError(
                f"The platform of this checkout runs already: process {error.note or '(id not known yet)'}. "
                "Stop that one with Ctrl-C first, or run a second one with other ports and TASKYARD_VAR_DIR."
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _embedded_broker(self, guard: OrphanGuard | None = None) -> EmbeddedBroker | None:
        if not self._settings.uses_embedded_broker:
            return None
        return EmbeddedBroker(self._settings.var_dir / "valkey", self._settings.embedded_port, guard=guard)

    def _check(self) -> None:
        """Find everything that is in the way before anything is started."""
        broker = self._embedded_broker()
        needs = port_needs(self._settings, with_flower=self._choice.flower_password is not None)
        problems = []
        if broker is not None:
            problems += broker.obstacles()
            # Our own broker on our own port is one problem, not two.
            needs[:0] = [] if problems else [broker.port_need]
        if self._choice.flower_password is not None and importlib.util.find_spec("flower") is None:
            problems.append(
                "Flower is not installed. Run `pip install 'taskyard[flower]'`, or add --no-flower."
            )
        problems += port_problems(needs)
        if problems:
            raise LaunchError(
                "\n".join(["Nothing was started:", *(f"  - {problem}" for problem in problems)])
            )

    def _prepare_database(self) -> None:
        migrate(self._console)
        self._login = ensure_admin_login()
        connections.close_all()

    def _announce(self) -> None:
        host = reachable_host(self._settings.host)
        address = f"http://[{host}]" if ":" in host else f"http://{host}"
        site = f"{address}:{self._settings.web_port}/"
        rows = [("Site", site), ("Admin", f"{site}admin/  {self._take_login_note()}")]
        if self._choice.flower_password is not None:
            rows.append(("Flower", f"{address}:{self._settings.flower_port}/  {self._flower_note()}"))
        table = "\n".join(f"  {name:<7} {text}" for name, text in rows)
        took_seconds = self._clock.monotonic() - self._began
        self._console.say(f"Everything is ready after {took_seconds:.1f} s. Ctrl-C stops it.\n{table}")

    def _flower_note(self) -> str:
        shows = self._choice.shows_flower_password
        password = self._choice.flower_password if shows else "in TASKYARD_FLOWER_PASSWORD"
        return f"log in as {self._settings.flower_user} with the password {password}"

    def _take_login_note(self) -> str:
        login, self._login = self._login, None
        return login.describe() if login is not None else ""

    def _tell_password(self) -> None:
        """Show a new password when the start ended before it could be shown: it is stored nowhere."""
        if self._login is not None and self._login.password is not None:
            self._console.say(f"Admin: {self._take_login_note()}")
