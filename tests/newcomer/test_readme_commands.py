"""The README's first command and the demonstration, as a new user runs them in a clean clone."""

from __future__ import annotations

import re
import signal
import socket
import urllib.error
import urllib.request

import pytest

from tests.support.newcomer import Newcomer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.newcomer, pytest.mark.timeout(900)]

INSTALL_SECONDS = 600
START_SECONDS = 180
STOP_SECONDS = 60
# make dies of the signal that it got from the terminal, after its command has ended
STOPPED_BY_CTRL_C = (0, -signal.SIGINT)


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_make_up_runs_everything_and_ctrl_c_leaves_nothing(newcomer: Newcomer) -> None:
    up = newcomer.types("make", "up")

    up.wait_for("Everything is ready", timeout_seconds=INSTALL_SECONDS)
    flower_line = up.wait_for("Flower  http", timeout_seconds=10)
    site = f"http://127.0.0.1:{newcomer.environment['TASKYARD_WEB_PORT']}"

    assert status_of(f"{site}/admin/login/") == 200
    assert status_of(re.search(r"http://\S+", flower_line)[0]) == 401  # type: ignore[index]
    assert re.search(r"log in as admin with the password \S+", up.output), up.output
    for queue in ("critical", "high", "default", "low", "bulk"):
        assert f"queues={queue} " in up.output

    up.press_ctrl_c()

    assert up.wait(timeout_seconds=STOP_SECONDS) in STOPPED_BY_CTRL_C, up.output
    assert "Stopped." in up.output
    wait_until(lambda: not newcomer.processes(), timeout_seconds=10, what="no process left in the clone")

    # the second time it knows its admin
    up = newcomer.types("make", "up")
    up.wait_for("Everything is ready", timeout_seconds=INSTALL_SECONDS)
    up.press_ctrl_c()

    assert up.wait(timeout_seconds=STOP_SECONDS) in STOPPED_BY_CTRL_C
    assert "with the password" not in up.wait_for("Admin   http", timeout_seconds=1)


def test_a_taken_port_is_named_with_its_variable(newcomer: Newcomer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        up = newcomer.types("make", "up", TASKYARD_WEB_PORT=port)

        assert up.wait(timeout_seconds=INSTALL_SECONDS) != 0

    assert port in up.output
    assert "TASKYARD_WEB_PORT" in up.output
    assert not newcomer.processes()


def test_make_demo_accounts_for_every_task(newcomer: Newcomer) -> None:
    demo = newcomer.types("make", "demo", "ARGS=--scale 0.1")

    code = demo.wait(timeout_seconds=INSTALL_SECONDS + START_SECONDS)

    assert code == 0, demo.output
    assert re.search(r"All [\d,]+ tasks are accounted for", demo.output)
    wait_until(lambda: not newcomer.processes(), timeout_seconds=10, what="no process left in the clone")
