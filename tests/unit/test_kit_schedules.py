"""The schedules that the kit's own tables need are there in every project, beside its own."""

from __future__ import annotations

import pytest
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from taskyard.celery_options import kit_schedules

OWN = {"own-report": {"task": "reports.build", "schedule": 60}}


@pytest.fixture
def scheduler(make_app, db):
    """Make beat's scheduler, as beat does when it starts."""
    return lambda: DatabaseScheduler(app=make_app(), lazy=False)


def test_their_tasks_exist_and_expire_before_the_next_one_comes(memory_app):
    memory_app.loader.import_default_modules()

    for entry in kit_schedules().values():
        assert entry["task"] in memory_app.tasks
        assert entry["options"]["expire_seconds"] > 0


def test_beat_writes_them_down_beside_the_project_s_own(settings, scheduler):
    settings.CELERY_BEAT_SCHEDULE = OWN

    scheduler()

    rows = {row.name: row for row in PeriodicTask.objects.all()}
    assert {"deadletters.recover", "deadletters.purge_resolved", "own-report"} <= set(rows)
    assert rows["deadletters.recover"].expire_seconds == 60
    assert rows["deadletters.recover"].interval.every == 60
    assert rows["deadletters.purge_resolved"].crontab.hour == "3"


def test_a_project_can_replace_one(settings, make_app):
    settings.CELERY_BEAT_SCHEDULE = {"deadletters.recover": {"task": "deadletters.recover", "schedule": 10}}

    assert make_app().conf.beat_schedule["deadletters.recover"]["schedule"] == 10


def test_one_that_is_disabled_in_the_admin_stays_disabled(scheduler):
    scheduler()
    PeriodicTask.objects.filter(name="deadletters.recover").update(enabled=False)

    scheduler()

    assert not PeriodicTask.objects.get(name="deadletters.recover").enabled


def test_without_the_app_there_is_none(settings):
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "taskyard.deadletters"]

    assert not [name for name in kit_schedules() if name.startswith("deadletters.")]
