"""What the launcher leaves behind when it is stopped, interrupted twice, or killed: nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_port, is_open
from tests.support.processes import are_gone, descendants, end_tree, kill_pid
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults
DRIVER = Path(__file__).parent.parent / "support" / "launch_driver.py"
PLATFORM = (
    ("web", "PUBLISHERS", "steady", 10),
    ("beat", "PUBLISHERS", "steady", 10),
    ("worker-high", "WORKERS", "pool", 10),
    ("worker-low", "WORKERS", "pool", 10),
)
BEFORE_WORKERS = {"web", "beat"}
WORKERS = {"worker-high", "worker-low"}


class Launcher:
    """The launcher under test, in a session of its own, with what it wrote and what its parts noted."""

    def __init__(
        self, directory: Path, parts: tuple[tuple[str, str, str, float], ...], *, with_broker: bool
    ) -> None:
        self.directory = directory
        self.port = free_port() if with_broker else 0
        config = {"directory": str(directory), "broker_port": self.port, "parts": parts}
        with (directory / "output").open("wb") as output:
            # Through a pipe, so that the tests can close it.
            self._tee = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=output)
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), json.dumps(config)],
            stdout=self._tee.stdin,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._tee.stdin.close()
        self._seen: list[int] = []

    @property
    def output(self) -> str:
        return (self.directory / "output").read_text()

    def close_output(self) -> None:
        """Close the other end of its output; nothing more is seen of it."""
        self._tee.kill()
        self._tee.wait(timeout=10)

    def events(self, kind: str) -> list[tuple[str, int]]:
        """Return the name and pid of each part to which this happened, in order."""
        file = self.directory / "events"
        lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [(name, int(pid)) for event, name, pid in lines if event == kind]

    def pids(self) -> list[int]:
        """Return the ids of all processes that it has ever started."""
        noted = [pid for kind in ("start", "pool") for _, pid in self.events(kind)]
        return list({*noted, *map(int, broker_pids(self.directory)), *self._seen})

    def note_descendants(self) -> None:
        """Remember the processes that it has now, also those that keep no notes."""
        self._seen = descendants(self.process.pid)

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.output, timeout_seconds=30, what=f"the launcher says {text!r}")

    def wait_for_end(self, timeout_seconds: float = 20) -> int:
        code = self.process.wait(timeout=timeout_seconds)
        self._tee.wait(timeout=10)  # all that it wrote has arrived
        return code

    def assert_nothing_is_left(self) -> None:
        pids = self.pids()
        assert pids, "no part has ever run"
        assert are_gone(pids), self.output
        assert not (self.port and is_open(self.port))


def broker_pids(directory: Path) -> list[str]:
    log = directory / "valkey" / "valkey.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.split(":")[0] for line in lines if "just started" in line]


Launch = Callable[..., Launcher]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Starts a launcher, waits until its parts run, and cleans up after it."""
    started: list[Launcher] = []

    def start(
        parts: tuple[tuple[str, str, str, float], ...] = PLATFORM,
        *,
        with_broker: bool = True,
        until: str = "all ready",
    ) -> Launcher:
        launcher = Launcher(tmp_path, parts, with_broker=with_broker)
        started.append(launcher)
        launcher.wait_for(until)
        for name, _, _, _ in parts:
            launcher.wait_for(f"| {name} does its work")
        pools = sum(behaviour == "pool" for _, _, behaviour, _ in parts)
        wait_until(
            lambda: len(launcher.events("pool")) >= pools, timeout_seconds=10, what="the pools are forked"
        )
        launcher.note_descendants()
        return launcher

    yield start
    for launcher in started:
        end_tree(launcher.process)
        launcher.close_output()
        for pid in launcher.pids():
            if not are_gone([pid]):
                os.kill(pid, signal.SIGKILL)


def assert_stopped_in_order(launcher: Launcher) -> None:
    stopped = [name for name, _ in launcher.events("stop")]
    assert set(stopped[:2]) == BEFORE_WORKERS
    assert set(stopped[2:]) == WORKERS
    assert_broker_saved(launcher)


def assert_broker_saved(launcher: Launcher) -> None:
    log = (launcher.directory / "valkey" / "valkey.log").read_text()
    assert "Calling fsync() on the AOF file." in log
    assert "ready to exit, bye bye" in log


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["process", "group"])
def test_a_signal_stops_everything_in_order(
    launch: Launch, number: signal.Signals, send: Callable[..., None]
) -> None:
    launcher = launch()

    send(launcher.process.pid, number)

    assert launcher.wait_for_end() == 0
    launcher.assert_nothing_is_left()
    assert_stopped_in_order(launcher)
    # The terminal's Ctrl-C reaches the launcher only, and a pool hears of no stop: its tasks would be lost.
    assert launcher.events("interrupted") == []
    assert launcher.events("lost") == []
    assert launcher.output.splitlines()[-1].endswith("| Stopped.")


def test_a_second_interrupt_kills_what_does_not_stop_and_saves_the_broker(launch: Launch) -> None:
    launcher = launch((*PLATFORM, ("worker-bulk", "WORKERS", "stubborn", 600)))
    os.kill(launcher.process.pid, signal.SIGINT)
    wait_until(
        lambda: launcher.events("ignored"), timeout_seconds=10, what="the stubborn worker is asked to stop"
    )
    wait_until_a_second_interrupt_counts()

    os.kill(launcher.process.pid, signal.SIGINT)

    assert launcher.wait_for_end() == 0
    launcher.assert_nothing_is_left()
    assert_stopped_in_order(launcher)
    assert "Killing worker-bulk" in launcher.output


def test_a_second_interrupt_in_the_first_stage_kills_the_later_ones_at_once(launch: Launch) -> None:
    launcher = launch((("web", "PUBLISHERS", "stubborn", 600), ("worker-high", "WORKERS", "pool", 600)))
    os.kill(launcher.process.pid, signal.SIGINT)
    wait_until(lambda: launcher.events("ignored"), timeout_seconds=10, what="web is asked to stop")
    wait_until_a_second_interrupt_counts()

    os.kill(launcher.process.pid, signal.SIGINT)

    assert launcher.wait_for_end() == 0
    launcher.assert_nothing_is_left()
    assert launcher.events("stop") == []
    assert_broker_saved(launcher)


def test_a_worker_that_does_not_stop_in_time_is_killed_and_named(launch: Launch) -> None:
    launcher = launch((*PLATFORM, ("worker-bulk", "WORKERS", "stubborn", 1.5)))

    os.kill(launcher.process.pid, signal.SIGTERM)

    assert launcher.wait_for_end() == 0
    launcher.assert_nothing_is_left()
    assert_stopped_in_order(launcher)
    stubborn_pid = dict(launcher.events("start"))["worker-bulk"]
    assert f"worker-bulk (pid {stubborn_pid}) did not stop within 1.5 s: killing it." in launcher.output


def test_nothing_lives_on_when_the_launcher_is_killed(launch: Launch) -> None:
    launcher = launch()

    launcher.process.kill()

    assert launcher.wait_for_end() == -signal.SIGKILL
    wait_until(
        lambda: are_gone(launcher.pids()), timeout_seconds=15, what="every part ends with the launcher"
    )
    launcher.assert_nothing_is_left()
    assert_broker_saved(launcher)
    assert launcher.events("lost") == []


def test_a_worker_that_does_not_listen_is_ended_after_its_time_when_the_launcher_is_killed(
    launch: Launch,
) -> None:
    launcher = launch((*PLATFORM, ("worker-bulk", "WORKERS", "stubborn", 1.5)))
    stubborn_pid = dict(launcher.events("start"))["worker-bulk"]

    launcher.process.kill()

    wait_until(
        lambda: launcher.events("ignored"), timeout_seconds=10, what="the stubborn worker is asked to stop"
    )
    assert not are_gone([stubborn_pid])
    wait_until(
        lambda: are_gone(launcher.pids()), timeout_seconds=15, what="every part ends with the launcher"
    )
    launcher.assert_nothing_is_left()


def test_a_killed_worker_is_named_and_started_again_and_its_pool_is_not_left(launch: Launch) -> None:
    launcher = launch()
    victim = dict(launcher.events("start"))["worker-high"]
    old_pool = dict(launcher.events("pool"))["worker-high"]

    kill_pid(victim)

    launcher.wait_for(
        f"worker-high (pid {victim}) ended unexpectedly: killed by SIGKILL. It starts again in 0.5 s."
    )
    launcher.wait_for("| worker-high runs again")
    assert are_gone([old_pool])
    wait_until(
        lambda: dict(launcher.events("start"))["worker-high"] != victim,
        timeout_seconds=10,
        what="it runs again",
    )


def test_a_killed_broker_is_started_again(launch: Launch) -> None:
    launcher = launch()
    victim = int(broker_pids(launcher.directory)[0])

    kill_pid(victim)

    launcher.wait_for(f"broker (pid {victim}) ended unexpectedly: killed by SIGKILL.")
    launcher.wait_for("| broker runs again")
    assert is_open(launcher.port)


def test_a_part_that_keeps_ending_stops_everything_and_says_why(launch: Launch) -> None:
    launcher = launch((*PLATFORM, ("worker-bulk", "WORKERS", "crash", 10)), until="worker-bulk does its work")

    assert launcher.wait_for_end(60) == 1

    launcher.assert_nothing_is_left()
    assert_stopped_in_order(launcher)
    assert len([name for name, _ in launcher.events("start") if name == "worker-bulk"]) == 5
    last = launcher.output[launcher.output.index("ended 5 times within 60 s") :]
    assert "so everything was stopped. The last time: exit code 1. Its last lines:" in last
    assert "the disk is on fire" in last


def test_a_launcher_whose_output_is_closed_stops_everything(launch: Launch) -> None:
    launcher = launch()
    victim = dict(launcher.events("start"))["worker-high"]
    launcher.close_output()

    kill_pid(victim)  # something to say, to nobody

    assert launcher.wait_for_end() == 0
    launcher.assert_nothing_is_left()
    assert {name for name, _ in launcher.events("stop")} >= BEFORE_WORKERS


def wait_until_a_second_interrupt_counts() -> None:
    from taskyard.launch.stop_requests import SAME_REQUEST_SECONDS

    began = time.monotonic()
    wait_until(
        lambda: time.monotonic() - began > SAME_REQUEST_SECONDS + 0.1,
        timeout_seconds=5,
        what="a moment passes",
    )
