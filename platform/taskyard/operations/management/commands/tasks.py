"""`manage.py tasks`: look at one task by its id, and cancel it."""

from __future__ import annotations

import getpass
import json
import socket
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from celery import current_app
from django.core.management.base import BaseCommand, CommandError

from taskyard.errors import ArgumentError, BrokerUnavailableError
from taskyard.observe.quiet import quiet_kit
from taskyard.operations.task_report import TaskReport, report_on
from taskyard.operations.tracked import what_follows
from taskyard.tasks.cancellation import cancel


class Command(BaseCommand):
    """Shows what is known of a task, and cancels it, wherever it is."""

    help = "Show what is known of a task by its id, or cancel it: waiting, delayed or running."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        show = actions.add_parser(
            "show", help="where its message is, its progress, its cancellation, its result, its dead letter"
        )
        stop = actions.add_parser("cancel", help="it does not start any more, and ends if it runs")
        for action in (show, stop):
            action.add_argument("task_id", metavar="ID")
            action.add_argument("--json", action="store_true", help="for machines")
        stop.add_argument("--why", default="", help="the reason, for the others")
        stop.add_argument("--who", help="who asks for it; you@host when not given")

    def handle(self, *_: Any, **options: Any) -> None:
        act: Callable[..., None] = getattr(self, f"_{options['action']}")
        try:
            with quiet_kit(verbosity=options["verbosity"]):
                act(options)
        except (ArgumentError, BrokerUnavailableError) as error:
            raise CommandError(str(error)) from error

    def _cancel(self, options: dict[str, Any]) -> None:
        who = options["who"] or f"{getpass.getuser()}@{socket.gethostname()}"
        outcome = cancel(options["task_id"], by=who, reason=options["why"])
        text = what_follows(outcome)
        self.stdout.write(json.dumps(outcome.as_dict() | {"text": text}) if options["json"] else text)

    def _show(self, options: dict[str, Any]) -> None:
        report = report_on(current_app._get_current_object(), options["task_id"])
        if options["json"]:
            self.stdout.write(json.dumps(report.as_dict(), indent=2))
            return
        if report.is_unknown:
            raise CommandError(
                f"Nothing is known of the task {report.task_id}: no message among the first of its queue, no "
                "row, no cancellation, no result, no dead letter. Plain tasks without results leave nothing "
                "at their end."
            )
        for name, value in _lines(report):
            self.stdout.write(f"{name:<12} {value}")


def _letter(report: TaskReport) -> str:
    if report.dead_letter is None:
        return ""
    number, status = report.dead_letter, report.dead_letter_status
    return f"{number}, {status}: `manage.py deadletters show {number}`"


def _lines(report: TaskReport) -> list[tuple[str, str]]:
    pairs = (
        ("task", f"{report.task_name} {report.task_id}".strip()),
        ("queue", report.queue),
        ("message", report.message),
        ("state", report.state),
        ("progress", report.progress),
        ("worker", report.worker),
        ("started", report.started_at),
        ("finished", report.finished_at),
        ("checkpoint", report.checkpoint),
        ("cancelled", report.cancelled),
        ("result", report.result_state),
        ("dead letter", _letter(report)),
    )
    return [(name, value) for name, value in pairs if value]
