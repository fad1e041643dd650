"""`manage.py taskyard config|doctor`."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import IO, Any, cast

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.table import Table

from taskyard.brokers import Finding
from taskyard.conf import get_settings
from taskyard.masking import mask

STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


class Command(BaseCommand):
    """Shows the effective configuration, and what is right or wrong with everything it names."""

    help = "Show the effective configuration (config), or what is right and wrong with all it names (doctor)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True, metavar="config|doctor")
        for name, text in (
            ("config", "print the effective Taskyard and Celery configuration, credentials masked"),
            ("doctor", "connect to everything; exit code 1 if something is wrong"),
        ):
            command = commands.add_parser(name, help=text)
            command.add_argument("--json", action="store_true", help="for machines")

    def handle(self, *_: Any, action: str, json: bool, **__: Any) -> None:
        if action == "config":
            self._config(as_json=json)
        else:
            self._doctor(as_json=json)

    def _config(self, *, as_json: bool) -> None:
        sections = effective_configuration()
        if as_json:
            self.stdout.write(json.dumps(sections, indent=2, default=str))
            return
        for title, values in sections.items():
            self.stdout.write(self.style.MIGRATE_HEADING(f"# {title}"))
            for name, value in values.items():
                self.stdout.write(f"{name} = {value!r}")
            self.stdout.write("")

    def _doctor(self, *, as_json: bool) -> None:
        from taskyard.doctor.findings import diagnose

        findings = diagnose(get_settings())
        if as_json:
            self.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=2))
        else:
            Console(file=cast(IO[str], self.stdout)).print(table_of(findings))
        if any(finding.state == "error" for finding in findings):
            raise CommandError("something is wrong; see above", returncode=1)


def effective_configuration() -> dict[str, dict[str, Any]]:
    """Return the Taskyard settings and the Celery options that are in force, credentials masked."""
    from celery import current_app

    settings = get_settings()
    ours = {name.upper(): getattr(settings, name) for name in type(settings).model_fields}
    theirs = dict(sorted(current_app.conf.table(with_defaults=False, censored=False).items()))
    return {
        "Taskyard": {name: _plain(value, name) for name, value in ours.items()},
        "Queues": {spec.name: _plain(asdict(spec)) for spec in settings.queue_table.values()},
        "Celery": {name: _plain(value, name) for name, value in theirs.items()},
    }


def _plain(value: Any, name: str = "") -> Any:
    masked = mask(value, name)
    return masked if isinstance(masked, (str, int, float, bool, dict, list, type(None))) else str(masked)


def table_of(findings: list[Finding]) -> Table:
    """Return the findings as a table: what, state, detail and what to do."""
    table = Table(title="Taskyard doctor", title_justify="left", show_lines=False)
    for column in ("what", "state", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        style = STYLES[finding.state]
        table.add_row(finding.what, f"[{style}]{finding.state}[/{style}]", finding.detail, finding.advice)
    return table
