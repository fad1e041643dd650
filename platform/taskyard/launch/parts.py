"""The parts of the platform that `manage.py up` runs, as processes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from taskyard.conf import Settings
from taskyard.launch.ports import PortNeed
from taskyard.launch.process import ProcessSpec, StopStage
from taskyard.launch.readiness import answers_http, file_exists, remove_file
from taskyard.launch.ready_file import READY_FILE_VARIABLE

# On top of the time that a stopping worker gives its tasks: putting them back, closing down.
WORKER_STOP_MARGIN_SECONDS = 10.0
PUBLISHER_STOP_SECONDS = 10.0
# `up` has made them once; in each part they would cost a second of its start.
SKIP_CHECKS = "--skip-checks"


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the platform to run.

    Args:
        queues: the queues that get a worker.
        with_beat: whether schedules run.
        flower_password: of Flower; None leaves Flower out.
        shows_flower_password: whether the password is new, so that nobody can know it yet.
    """

    queues: tuple[str, ...]
    with_beat: bool = True
    flower_password: str | None = None
    shows_flower_password: bool = False


def management_command(program: str) -> tuple[str, ...]:
    """Return how this project's management commands are called.

    Args:
        program: what the running command was called as (`sys.argv[0]`).
    """
    if Path(program).name == "manage.py":
        return (sys.executable, str(Path(program).absolute()))
    return (sys.executable, "-m", "django")


def port_needs(settings: Settings, *, with_flower: bool) -> list[PortNeed]:
    """Return the ports that the web parts need."""
    needs = [PortNeed(settings.web_port, settings.host, "the site", "TASKYARD_WEB_PORT")]
    if with_flower:
        needs.append(PortNeed(settings.flower_port, settings.host, "Flower", "TASKYARD_FLOWER_PORT"))
    return needs


def platform_parts(settings: Settings, choice: Choice, *, command: Sequence[str]) -> list[ProcessSpec]:
    """Return the processes in the order of their start.

    Args:
        settings: of the project.
        choice: what to run.
        command: how management commands are called.
    """
    maker = _SpecMaker(settings, tuple(command))
    parts = [maker.web(), *(maker.worker(queue) for queue in choice.queues)]
    if choice.with_beat:
        parts.append(maker.beat())
    if choice.flower_password is not None:
        parts.append(maker.flower(choice.flower_password))
    return parts


class _SpecMaker:
    def __init__(self, settings: Settings, command: tuple[str, ...]) -> None:
        self._settings = settings
        self._command = command

    def web(self) -> ProcessSpec:
        return ProcessSpec(
            name="web",
            argv=(*self._command, "web", SKIP_CHECKS),
            env={"PYTHONUNBUFFERED": "1", "DJANGO_RUNSERVER_HIDE_WARNING": "true"},
            stop_stage=StopStage.PUBLISHERS,
            stop_timeout_seconds=PUBLISHER_STOP_SECONDS,
            is_ready=answers_http(self._settings.host, self._settings.web_port, "/"),
        )

    def worker(self, queue: str) -> ProcessSpec:
        return self._with_ready_file(
            name=f"worker-{queue}",
            argv=(*self._command, "worker", "--queue", queue, SKIP_CHECKS),
            stop_stage=StopStage.WORKERS,
            stop_timeout_seconds=self._settings.soft_shutdown_seconds + WORKER_STOP_MARGIN_SECONDS,
        )

    def beat(self) -> ProcessSpec:
        return self._with_ready_file(
            name="beat",
            argv=(*self._command, "beat"),
            stop_stage=StopStage.PUBLISHERS,
            stop_timeout_seconds=PUBLISHER_STOP_SECONDS,
        )

    def flower(self, password: str) -> ProcessSpec:
        return ProcessSpec(
            name="flower",
            argv=(*self._command, "flower"),
            env={"PYTHONUNBUFFERED": "1", "TASKYARD_FLOWER_PASSWORD": password},
            stop_stage=StopStage.PUBLISHERS,
            stop_timeout_seconds=PUBLISHER_STOP_SECONDS,
            is_ready=answers_http(self._settings.host, self._settings.flower_port, "/healthcheck"),
        )

    def _with_ready_file(
        self, *, name: str, argv: tuple[str, ...], stop_stage: StopStage, stop_timeout_seconds: float
    ) -> ProcessSpec:
        ready_file = self._settings.var_dir.absolute() / "ready" / name
        return ProcessSpec(
            name=name,
            argv=argv,
            env={"PYTHONUNBUFFERED": "1", READY_FILE_VARIABLE: str(ready_file)},
            stop_stage=stop_stage,
            stop_timeout_seconds=stop_timeout_seconds,
            is_ready=file_exists(ready_file),
            before_start=remove_file(ready_file),
        )
