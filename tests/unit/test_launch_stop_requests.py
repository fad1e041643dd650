"""What signals ask of the launcher."""

import os
import signal

import pytest

from taskyard.launch.stop_requests import SAME_REQUEST_SECONDS, StopRequests


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def requests(clock):
    with StopRequests(clock) as entered:
        yield entered


def test_before_there_is_anything_to_stop_the_first_signal_interrupts(requests):
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)

    assert (requests.is_asked, requests.is_forced, requests.reason) == (True, False, "SIGTERM")


def test_a_second_ctrl_c_asks_not_to_wait(requests, clock):
    requests.wait_for_stop()

    os.kill(os.getpid(), signal.SIGINT)
    assert (requests.is_asked, requests.is_forced, requests.reason) == (True, False, "Ctrl-C")
    clock.seconds += SAME_REQUEST_SECONDS
    os.kill(os.getpid(), signal.SIGINT)

    assert requests.is_forced


def test_a_signal_that_make_passes_on_is_no_second_ctrl_c(requests, clock):
    requests.wait_for_stop()

    os.kill(os.getpid(), signal.SIGINT)
    clock.seconds += SAME_REQUEST_SECONDS / 2
    os.kill(os.getpid(), signal.SIGINT)

    assert not requests.is_forced


def test_only_ctrl_c_takes_the_patience_away(requests, clock):
    requests.wait_for_stop()

    os.kill(os.getpid(), signal.SIGTERM)
    clock.seconds += 60
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGHUP)

    assert not requests.is_forced


def test_the_handlers_of_before_come_back():
    before = signal.getsignal(signal.SIGTERM)

    with StopRequests():
        assert signal.getsignal(signal.SIGTERM) != before

    assert signal.getsignal(signal.SIGTERM) == before
