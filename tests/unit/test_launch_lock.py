"""One launcher a checkout: the lock ends with its holder, whatever is left in the file."""

import os
import subprocess
import sys

import pytest

from taskyard.errors import LaunchError
from taskyard.launch.lock import FileLock, LockTakenError
from tests.support.processes import kill
from tests.support.waiting import wait_until


def test_the_second_holder_is_told_who_the_first_is(tmp_path):
    first, second = FileLock(tmp_path / "up.lock"), FileLock(tmp_path / "up.lock")
    first.acquire()

    with pytest.raises(LockTakenError) as caught:
        second.acquire()

    assert caught.value.note == str(os.getpid())
    assert isinstance(caught.value, LaunchError)
    assert second.holder() == str(os.getpid())


def test_it_is_free_after_the_release(tmp_path):
    lock = FileLock(tmp_path / "deep" / "up.lock")
    lock.acquire()
    lock.release()
    lock.release()

    assert FileLock(lock.path).holder() is None
    FileLock(lock.path).acquire()


def test_asking_for_the_holder_changes_nothing(tmp_path):
    (tmp_path / "up.lock").write_text("42\n")

    assert FileLock(tmp_path / "up.lock").holder() is None
    assert FileLock(tmp_path / "missing.lock").holder() is None

    assert (tmp_path / "up.lock").read_text() == "42\n"
    assert not (tmp_path / "missing.lock").exists()


def test_a_file_that_is_left_behind_is_harmless(tmp_path):
    (tmp_path / "up.lock").write_text("123456789012345678901234567890\n")

    FileLock(tmp_path / "up.lock").acquire()

    assert (tmp_path / "up.lock").read_text() == f"{os.getpid()}\n"


def test_a_child_that_inherits_the_lock_holds_it_until_it_ends(tmp_path):
    lock = FileLock(tmp_path / "server.lock")
    lock.acquire()
    lock.write_note("a note")
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"], pass_fds=(lock.descriptor,)
    )
    lock.release()
    assert FileLock(lock.path).holder() == "a note"

    kill(child)

    assert FileLock(lock.path).holder() is None


def test_other_children_do_not_hold_it(tmp_path):
    lock = FileLock(tmp_path / "up.lock")
    lock.acquire()
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"], close_fds=False
    )

    lock.release()

    # Not at once: the kernel closes the child's copy a moment after the start is reported.
    wait_until(lambda: FileLock(lock.path).holder() is None, timeout_seconds=5, what="the lock is free")
    kill(child)


def test_the_descriptor_of_a_lock_that_is_not_held_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match=r"is not held\. Call acquire\(\) first"):
        _ = FileLock(tmp_path / "up.lock").descriptor
