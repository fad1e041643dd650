"""`manage.py up` as a newcomer meets it: two runs of the real platform in an empty directory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.ports import free_port, is_open
from tests.support.processes import are_gone, end_tree
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
READY_TIMEOUT_SECONDS = 120
GIVEN_PASSWORD = "given-password"
LOGIN = re.compile(r"log in as (\S+) with the password (\S+)")


@dataclass
class Run:
    """What was seen of one run."""

    output: str = ""
    exit_code: int | None = None
    command_lines: list[list[str]] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    admin_login: httpx.Response | None = None
    static_file: httpx.Response | None = None
    flower_without_login: httpx.Response | None = None
    flower: httpx.Response | None = None
    second_up: subprocess.CompletedProcess[str] | None = None

    def row(self, name: str) -> str:
        """Return a row of the table that is shown when everything is ready."""
        [row] = [line for line in self.output.splitlines() if re.match(rf"up +\|   {name} ", line)]
        return row


class Platform:
    """`manage.py up` with two queues in a directory and on ports of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.web, self.flower, self.broker = (free_port() for _ in range(3))
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")},
            "DJANGO_DEBUG": "1",
            "TASKYARD_VAR_DIR": str(directory / "var"),
            "TASKYARD_WEB_PORT": str(self.web),
            "TASKYARD_FLOWER_PORT": str(self.flower),
            "TASKYARD_EMBEDDED_PORT": str(self.broker),
        }
        self.command = [
            sys.executable,
            str(ROOT / "manage.py"),
            "up",
            "--queue",
            "critical",
            "--queue",
            "low",
        ]

    @contextmanager
    def up(self) -> Iterator[tuple[Run, subprocess.Popen[bytes]]]:
        """Run it until everything is ready; after the block, stop its whole process group by SIGTERM."""
        log = self.directory / "output"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.command,
                env=self.environ,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        run = Run()
        try:
            wait_until(
                lambda: "Everything is ready" in log.read_text() or process.poll() is not None,
                timeout_seconds=READY_TIMEOUT_SECONDS,
                what="the platform is ready",
            )
            assert process.poll() is None, log.read_text()
            yield run, process
            pids = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
            os.killpg(process.pid, signal.SIGTERM)
            run.exit_code = process.wait(timeout=60)
            run.left = [pid for pid in pids if not are_gone([pid])]
        finally:
            end_tree(process)
            run.output = log.read_text()


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Platform:
    return Platform(tmp_path_factory.mktemp("up"))


@pytest.fixture(scope="module")
def first(platform: Platform) -> Run:
    """The first run, in an empty directory, looked at from all sides and stopped."""
    with platform.up() as (run, process):
        text = (platform.directory / "output").read_text()
        children = psutil.Process(process.pid).children(recursive=True)
        run.command_lines = [child.cmdline() for child in [psutil.Process(process.pid), *children]]
        (admin, flower) = LOGIN.findall(text)
        run.admin_login = log_in(f"http://127.0.0.1:{platform.web}/admin/login/", *admin)
        run.static_file = httpx.get(f"http://127.0.0.1:{platform.web}/static/admin/css/base.css")
        run.flower_without_login = httpx.get(f"http://127.0.0.1:{platform.flower}/workers")
        run.flower = wait_until(
            lambda: flower_with_worker(f"http://127.0.0.1:{platform.flower}/workers", flower),
            timeout_seconds=30,
            what="Flower shows a worker",
        )
        run.second_up = subprocess.run(
            platform.command, env=platform.environ, capture_output=True, text=True, timeout=60, check=False
        )
    return run


@pytest.fixture(scope="module")
def second(platform: Platform, first: Run) -> Run:
    """The run after that."""
    platform.environ["TASKYARD_FLOWER_PASSWORD"] = GIVEN_PASSWORD
    with platform.up() as (run, _):
        pass
    return run


def log_in(url: str, user: str, password: str) -> httpx.Response:
    with httpx.Client(follow_redirects=True) as client:
        client.get(url)
        form = {"username": user, "password": password, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        return client.post(f"{url}?next=/admin/", data=form)


def flower_with_worker(url: str, auth: tuple[str, str]) -> httpx.Response | None:
    response = httpx.get(url, auth=auth)
    return response if "critical@" in response.text else None


def test_the_shown_login_opens_the_admin(first: Run) -> None:
    assert first.admin_login is not None
    assert first.admin_login.url.path == "/admin/"
    assert "Site administration" in first.admin_login.text


def test_the_site_serves_its_static_files(first: Run) -> None:
    assert first.static_file is not None
    assert (first.static_file.status_code, first.static_file.headers["content-type"][:8]) == (200, "text/css")


def test_flower_is_behind_the_shown_login(first: Run) -> None:
    assert first.flower_without_login is not None
    assert first.flower is not None
    assert first.flower_without_login.status_code == 401
    assert first.flower.status_code == 200


def test_no_password_is_on_a_command_line_or_in_the_log_of_a_part(first: Run) -> None:
    for _, password in LOGIN.findall(first.output):
        assert password not in str(first.command_lines)
        assert first.output.count(password) == 1


def test_every_line_has_a_prefix_and_none_a_colour(first: Run) -> None:
    lines = first.output.splitlines()

    assert [line for line in lines if not re.match(r"[a-z-]+ +\| ", line + " ")] == []
    assert len({line.index("|") for line in lines}) == 1
    assert "\x1b" not in first.output


def test_the_first_run_makes_the_database(first: Run) -> None:
    assert re.search(r"^migrate +\| Applying \d+ migrations\.$", first.output, re.MULTILINE)


def test_each_chosen_queue_has_a_worker(first: Run) -> None:
    ready = set(re.findall(r"worker-(\w+) +\| .*worker ready", first.output))

    assert ready == {"critical", "low"}


def test_a_second_one_at_the_same_time_is_told_about_the_first(first: Run) -> None:
    assert first.second_up is not None
    assert first.second_up.returncode == 1
    assert re.search(r"The platform of this checkout runs already: process \d+\.", first.second_up.stderr)


def test_a_signal_to_the_process_group_stops_everything(first: Run, platform: Platform) -> None:
    assert first.exit_code == 0, first.output
    assert first.left == []
    assert not any(is_open(port) for port in (platform.web, platform.flower, platform.broker))
    assert "did not stop within" not in first.output
    assert first.output.endswith("| Stopped.\n")


def test_the_second_run_finds_everything_and_shows_no_admin_password(second: Run) -> None:
    assert second.row("Admin").endswith("log in as admin; a new password: manage.py changepassword admin")
    assert not re.search("^migrate ", second.output, re.MULTILINE)
    assert second.exit_code == 0
    assert second.left == []


def test_a_password_that_the_user_has_set_is_not_shown(second: Run) -> None:
    assert GIVEN_PASSWORD not in second.output
    assert second.row("Flower").endswith("log in as flower with the password in TASKYARD_FLOWER_PASSWORD")
