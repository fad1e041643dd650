"""The supervisor with real, tiny processes: order of the start, readiness, output, restarts, stop."""

import io
import os
import signal
import sys

import pytest

from taskyard.errors import LaunchError
from taskyard.launch.output import Console
from taskyard.launch.process import Process, ProcessSpec, StopStage
from taskyard.launch.restarts import RestartLimits
from taskyard.launch.stop_requests import StopRequests
from taskyard.launch.supervisor import Supervisor

STEADY = "import signal; print('begun', flush=True); signal.pause()"


def spec(name: str, script: str = STEADY, **options) -> ProcessSpec:
    options.setdefault("stop_stage", StopStage.WORKERS)
    return ProcessSpec(name=name, argv=(sys.executable, "-I", "-S", "-c", script), **options)


@pytest.fixture
def stream():
    return io.StringIO()


@pytest.fixture
def run(stream):
    """Runs a supervisor; by default until everything is ready."""

    def start(*specs: ProcessSpec, on_ready=None, **options) -> int:
        processes = [Process(each) for each in specs]
        console = Console(stream, [each.name for each in specs])
        with StopRequests() as requests:
            return Supervisor(processes, console, requests, on_ready=on_ready or ask_to_stop, **options).run()

    return start


def ask_to_stop() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ready_is_told_once_when_every_part_says_so(run, tmp_path):
    moments = []
    script = "import pathlib, signal; pathlib.Path({!r}).touch(); signal.pause()"
    files = [tmp_path / "one", tmp_path / "two"]

    def note_and_stop() -> None:
        moments.append([file.exists() for file in files])
        ask_to_stop()

    specs = [spec(file.name, script.format(str(file)), is_ready=file.exists) for file in files]
    assert run(*specs, on_ready=note_and_stop) == 0

    assert moments == [[True, True]]


def test_parts_start_in_order(run):
    started = []

    run(
        *(spec(name, before_start=lambda name=name: started.append(name)) for name in ("one", "two", "three"))
    )

    assert started == ["one", "two", "three"]


def test_the_lines_of_two_that_write_at_once_do_not_mix(run, stream):
    script = """
import os, signal
for number in range(2000):
    os.write(1, ("{0}" * 50)[:25].encode())
    os.write(1, ("{0}" * 50)[25:].encode() + b"\\n")
os.write(1, b"done\\n")
signal.pause()
"""

    def both_are_done() -> bool:
        return stream.getvalue().count("| done\n") == 2

    run(spec("a", script.format("a")), spec("b", script.format("b"), is_ready=both_are_done))

    lines = stream.getvalue().splitlines()
    assert lines.count("a  | " + "a" * 50) == 2000
    assert lines.count("b  | " + "b" * 50) == 2000


def test_the_last_words_of_a_part_are_shown_also_without_a_line_end(run, stream):
    script = """
import os, signal, sys
signal.signal(15, lambda *_: (os.write(1, b'bye'), sys.exit(0)))
os.write(1, b'begun\\n')
signal.pause()
"""

    run(spec("part", script, is_ready=lambda: "| begun" in stream.getvalue()))

    assert "part | bye\n" in stream.getvalue()


def test_a_part_that_ends_is_named_with_its_exit_code_and_runs_again(run, stream, tmp_path):
    script = f"""
import pathlib, signal, sys
seen = pathlib.Path({str(tmp_path / "seen")!r})
if not seen.exists():
    seen.touch()
    sys.exit(3)
pathlib.Path({str(tmp_path / "ready")!r}).touch()
signal.pause()
"""

    assert run(spec("part", script, is_ready=(tmp_path / "ready").exists)) == 0

    assert "ended unexpectedly: exit code 3. It starts again in 0.5 s." in stream.getvalue()


def test_a_part_that_ends_well_without_being_asked_has_ended_unexpectedly_too(run, stream):
    limits = RestartLimits(max_exits=1)

    assert run(spec("part", "pass", is_ready=lambda: False), limits=limits) == 1

    assert "ended unexpectedly: exit code 0" in stream.getvalue()
    assert "It has written nothing." in stream.getvalue()


def test_the_reason_of_a_failure_comes_last(run, stream):
    limits = RestartLimits(max_exits=1)

    run(
        spec("good"),
        spec("bad", "print('no disk'); raise SystemExit(7)", is_ready=lambda: False),
        limits=limits,
    )

    assert stream.getvalue().splitlines()[-2:] == [
        "up   | bad ended 1 times within 60 s, so everything was stopped. "
        "The last time: exit code 7. Its last lines:",
        "up   |     no disk",
    ]


def test_the_last_lines_of_a_part_with_a_log_file_come_from_there(run, stream, tmp_path):
    run(
        spec(
            "part",
            "print('in the log'); raise SystemExit(7)",
            is_ready=lambda: False,
            log_file=tmp_path / "log",
        ),
        limits=RestartLimits(max_exits=1),
    )

    assert stream.getvalue().endswith("|     in the log\n")


def test_a_part_that_runs_already_is_taken_over(run, stream):
    started = []
    process = Process(spec("part", before_start=lambda: started.append("part")))
    process.start()

    with StopRequests() as requests:
        console = Console(stream, ["part"])
        assert Supervisor([process], console, requests, on_ready=ask_to_stop).run() == 0

    assert started == ["part"]
    assert not process.is_running


def test_when_a_start_fails_the_started_parts_are_stopped(stream):
    def fail() -> None:
        raise LaunchError("no memory")

    first, second = Process(spec("first")), Process(spec("second", before_start=fail))

    with StopRequests() as requests, pytest.raises(LaunchError, match="no memory"):
        Supervisor([first, second], Console(stream, ["first", "second"]), requests).run()

    assert first.poll() is not None


def test_parts_that_take_long_are_named(run, stream):
    slow = spec("slow", is_ready=lambda: "Not ready after" in stream.getvalue())

    run(spec("fast"), slow, slow_start_seconds=0.1)

    assert "up   | Not ready after 0 s: slow.\n" in stream.getvalue()
