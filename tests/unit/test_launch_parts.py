"""The parts that `manage.py up` runs, from the settings."""

import sys
from pathlib import Path

import pytest

from taskyard.conf import build_settings
from taskyard.launch.parts import Choice, management_command, platform_parts, port_needs
from taskyard.launch.process import StopStage
from taskyard.launch.ready_file import READY_FILE_VARIABLE, touch_ready_file

COMMAND = ("python", "manage.py")


@pytest.fixture
def settings(tmp_path):
    return build_settings({"VAR_DIR": tmp_path, "SOFT_SHUTDOWN_SECONDS": 20})


def parts_of(settings, **choice):
    choice.setdefault("queues", tuple(settings.queue_table))
    choice.setdefault("flower_password", "s3cret")
    return {part.name: part for part in platform_parts(settings, Choice(**choice), command=COMMAND)}


def test_there_is_a_part_for_each_queue_and_service(settings):
    assert list(parts_of(settings)) == [
        "web",
        "worker-critical",
        "worker-high",
        "worker-default",
        "worker-low",
        "worker-bulk",
        "beat",
        "flower",
    ]


def test_parts_can_be_left_out(settings):
    assert list(parts_of(settings, queues=("high",), with_beat=False, flower_password=None)) == [
        "web",
        "worker-high",
    ]


def test_publishers_stop_before_workers(settings):
    stages = {name: part.stop_stage for name, part in parts_of(settings, queues=("low",)).items()}

    assert stages == {
        "web": StopStage.PUBLISHERS,
        "beat": StopStage.PUBLISHERS,
        "flower": StopStage.PUBLISHERS,
        "worker-low": StopStage.WORKERS,
    }
    assert StopStage.PUBLISHERS < StopStage.WORKERS < StopStage.BROKER


def test_a_worker_has_ten_seconds_more_than_its_tasks(settings):
    assert parts_of(settings)["worker-low"].stop_timeout_seconds == 30


def test_the_password_of_flower_is_in_the_environment_of_flower_alone(settings):
    parts = parts_of(settings)

    assert parts["flower"].env["TASKYARD_FLOWER_PASSWORD"] == "s3cret"
    assert [name for name, part in parts.items() if "s3cret" in str([*part.env.values(), part.argv])] == [
        "flower"
    ]


def test_a_worker_serves_its_queue(settings):
    worker = parts_of(settings)["worker-critical"]

    assert worker.argv[:5] == (*COMMAND, "worker", "--queue", "critical")


def test_a_worker_is_ready_when_it_has_touched_its_file(settings, monkeypatch):
    worker = parts_of(settings)["worker-low"]
    worker.before_start()
    assert not worker.is_ready()

    monkeypatch.setenv(READY_FILE_VARIABLE, worker.env[READY_FILE_VARIABLE])
    touch_ready_file(sender=None, signal=None)
    assert worker.is_ready()

    worker.before_start()
    assert not worker.is_ready()


def test_a_process_that_the_launcher_did_not_start_touches_nothing(monkeypatch):
    monkeypatch.delenv(READY_FILE_VARIABLE, raising=False)

    touch_ready_file()


def test_the_ready_file_is_no_setting():
    """Variables with the prefix of the settings are refused unless they are settings."""
    assert not READY_FILE_VARIABLE.startswith("TASKYARD_")


def test_only_the_parts_that_run_need_ports(settings):
    assert [need.variable for need in port_needs(settings, with_flower=True)] == [
        "TASKYARD_WEB_PORT",
        "TASKYARD_FLOWER_PORT",
    ]
    assert [need.port for need in port_needs(settings, with_flower=False)] == [settings.web_port]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("/srv/site/manage.py", (sys.executable, "/srv/site/manage.py")),
        ("manage.py", (sys.executable, str(Path.cwd() / "manage.py"))),
        ("/usr/bin/django-admin", (sys.executable, "-m", "django")),
    ],
)
def test_management_commands_are_called_as_this_one_was(program, expected):
    assert management_command(program) == expected
