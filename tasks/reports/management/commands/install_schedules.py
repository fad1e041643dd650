"""manage.py install_schedules: create the reference schedules that are missing."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from tasks.reports.installation import install_schedules
from tasks.reports.schedules import SCHEDULES


class Command(BaseCommand):
    help = "Create the schedules that are missing. Schedules that exist are left as they are."

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        created = install_schedules(SCHEDULES)
        for name, schedule in SCHEDULES.items():
            state = "created" if name in created else "exists already"
            self.stdout.write(f"{name}: {state} ({schedule.task}, {schedule.crontab} UTC)")
