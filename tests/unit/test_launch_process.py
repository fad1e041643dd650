"""A part as a child process: its environment, its signals, its end, and what it must not leave behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from taskyard.launch.orphan_guard import OrphanGuard
from taskyard.launch.process import CHILD_WRAPPER, Process, ProcessSpec, describe_exit
from tests.support.processes import are_gone
from tests.support.waiting import wait_until

PYTHON = (sys.executable, "-I", "-S", "-c")


def run(script: str, **options) -> Process:
    process = Process(ProcessSpec(name="part", argv=(*PYTHON, script), **options))
    process.start()
    return process


def output_of(process: Process) -> bytes:
    assert process.wait(10) is not None
    assert process.output is not None
    content = os.read(process.output, 65536)
    process.close_output()
    return content


def test_it_gets_the_environment_and_nothing_on_the_command_line():
    process = run(
        "import os; print(os.environ['SECRET'], os.environ['PATH'] != '')", env={"SECRET": "s3cret"}
    )

    assert output_of(process) == b"s3cret True\n"
    assert "s3cret" not in repr(process.spec)


def test_it_runs_in_a_session_of_its_own_under_its_own_id():
    process = run("import os; print(os.getpid(), os.getsid(0), os.getppid())")

    assert output_of(process).split() == [
        str(pid).encode() for pid in (process.pid, process.pid, os.getpid())
    ]


def test_its_errors_are_output_too():
    assert b"SystemExit" not in output_of(run("import sys; sys.exit('wrong')"))
    assert output_of(run("import sys; sys.exit('wrong')")) == b"wrong\n"


def test_output_goes_to_the_log_file_when_there_is_one(tmp_path):
    process = run("print('hello')", log_file=tmp_path / "log")
    process.wait(10)

    assert process.output is None
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_program_that_does_not_exist_ends_with_127_and_says_so():
    process = Process(ProcessSpec(name="part", argv=("/no/such/program",)))
    process.start()

    assert output_of(process) == b"/no/such/program did not start: No such file or directory.\n"
    assert process.poll() == 127


def test_it_can_be_started_again(tmp_path):
    process = run(
        "print('again')",
        before_start=lambda: (tmp_path / "log").write_text("new\n"),
        log_file=tmp_path / "log",
    )
    process.wait(10)

    process.start()

    assert process.wait(10) == 0
    assert (tmp_path / "log").read_text() == "new\nagain\n"


def test_stop_asks_first():
    process = run(
        "import signal, sys; signal.signal(15, lambda *_: sys.exit(3))\n"
        "print('up', flush=True); signal.pause()"
    )
    wait_for_output(process)

    assert process.stop() is True
    assert process.poll() == 3


def test_stop_kills_what_does_not_listen():
    process = run(
        "import signal; signal.signal(15, signal.SIG_IGN)\n"
        "print('up', flush=True)\nwhile True: signal.pause()"
    )
    wait_for_output(process)

    assert process.stop(timeout_seconds=0.2) is False
    assert process.poll() == -signal.SIGKILL
    assert not process.is_running


def test_a_process_that_was_never_started_does_not_run():
    process = Process(ProcessSpec(name="part", argv=("true",)))

    assert not process.is_running
    assert (process.pid, process.poll(), process.output, process.wait(0)) == (None, None, None, None)


FORKING = """
import os, signal, sys
for leave_group in (False, True):
    if os.fork() == 0:
        if leave_group:
            os.setpgid(0, 0)
        os.write(1, f"{os.getpid()} ".encode())
        while True:
            signal.pause()
while True:
    signal.pause()
"""


def test_what_a_killed_process_leaves_in_its_session_is_killed_too():
    process = run(FORKING)
    children: list[int] = []

    def both_run() -> bool:
        children.extend(int(word) for word in read(process).split())
        return len(children) == 2

    wait_until(both_run, timeout_seconds=10, what="both children run")
    process.signal(signal.SIGKILL)

    assert process.wait(10) == -signal.SIGKILL
    assert are_gone(children)


def test_the_wrapper_starts_nothing_when_the_launcher_has_died_already(tmp_path):
    """The launcher may die before the wrapper has asked for the signal at its death: then no signal comes."""
    not_our_pid = os.getppid()

    ended = subprocess.run(
        [sys.executable, "-I", "-S", str(CHILD_WRAPPER), str(not_our_pid), "touch", str(tmp_path / "ran")],
        check=False,
    )

    assert ended.returncode == 0
    assert not (tmp_path / "ran").exists()


def test_the_wrapper_uses_the_standard_library_only():
    """Also when the directory that it lies in holds modules of the same names as the standard library's."""
    ended = subprocess.run(
        [sys.executable, "-I", "-S", str(CHILD_WRAPPER), str(os.getpid()), "echo", "started"],
        cwd=Path(CHILD_WRAPPER).parent,
        capture_output=True,
        check=True,
    )

    assert (ended.stdout, ended.stderr) == (b"started\n", b"")


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exit code 0"), (3, "exit code 3"), (-9, "killed by SIGKILL"), (-64, "killed by SIGRTMAX")],
)
def test_exit_codes_in_words(code, words):
    assert describe_exit(code) == words


def read(process: Process) -> bytes:
    assert process.output is not None
    try:
        return os.read(process.output, 65536)
    except BlockingIOError:
        return b""


def wait_for_output(process: Process) -> None:
    wait_until(lambda: read(process), timeout_seconds=10, what="the part writes something")


def test_the_guard_hears_of_each_start_and_end():
    heard = []

    class Guard(OrphanGuard):
        def note_start(self, pid: int, patience_seconds: float) -> None:
            heard.append(("start", pid, patience_seconds))

        def note_end(self, pid: int) -> None:
            heard.append(("end", pid))

    process = Process(ProcessSpec(name="part", argv=("true",), stop_timeout_seconds=7), Guard())
    process.start()
    process.wait(10)
    process.poll()

    assert heard == [("start", process.pid, 7), ("end", process.pid)]


def test_what_the_guard_remembers_are_the_parts_that_run():
    from taskyard.launch.orphan_killer import read_parts

    assert read_parts(["+1 10\n", "+2 20.5\n", "-1\n", "+3 1\n", "-99\n"]) == {2: 20.5, 3: 1.0}


def test_the_guard_ends_with_the_launcher_when_no_part_is_left():
    with OrphanGuard() as guard:
        guard.note_start(os.getpid(), 0.0)
        guard.note_end(os.getpid())
        killer = guard._killer

    assert killer is not None
    assert killer.returncode == 0
