"""Bringing schedules into django-celery-beat's tables."""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from django.db import transaction
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from tasks.reports.schedules import Schedule

CRONTAB_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")


def install_schedules(schedules: Mapping[str, Schedule]) -> list[str]:
    """Create the schedules that are missing, and return their names.

    A schedule that exists is left alone, whatever it says: it belongs to the people who edit it in the admin.
    So a schedule that is not wanted is disabled there, not deleted; deleted, it comes back.
    """
    with transaction.atomic():
        return [name for name, schedule in schedules.items() if _create_if_missing(name, schedule)]


def _create_if_missing(name: str, schedule: Schedule) -> bool:
    if PeriodicTask.objects.filter(name=name).exists():
        return False
    _, created = PeriodicTask.objects.get_or_create(
        name=name,
        defaults={
            "task": schedule.task,
            "crontab": _crontab(schedule.crontab),
            "expire_seconds": schedule.expire_seconds,
            "description": schedule.description,
        },
    )
    return bool(created)


def _crontab(expression: str) -> CrontabSchedule:
    fields = dict(zip(CRONTAB_FIELDS, expression.split(), strict=True)) | {"timezone": ZoneInfo("UTC")}
    # Not get_or_create: the table has no unique constraint, so there may be several.
    return CrontabSchedule.objects.filter(**fields).first() or CrontabSchedule.objects.create(**fields)
