"""Scheduled work: the same report however often, sessions removed in chunks, schedules installed once."""

import io
import random
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.models import Session
from django.core.files.storage import FileSystemStorage, InMemoryStorage, default_storage
from django.core.management import call_command
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from tasks.orders.models import Order, Payment
from tasks.reports import services, sessions
from tasks.reports.files import replace_file
from tasks.reports.installation import install_schedules
from tasks.reports.load import create_sessions
from tasks.reports.schedules import SCHEDULES
from tasks.reports.tasks import build_nightly_report, clear_expired_sessions, day_before_publish

pytestmark = pytest.mark.django_db
DAY = date(2031, 5, 4)
START = datetime(2031, 5, 4, tzinfo=UTC)


class FixedClock:
    def __init__(self, moment):
        self.moment = moment

    def now(self):
        return self.moment

    def monotonic(self):
        return 0.0


NEXT_DAY = FixedClock(START + timedelta(days=1))


@pytest.fixture
def storage(tmp_path):
    return FileSystemStorage(location=tmp_path)


def make_order(moment):
    return Order.objects.create(
        customer_email="alder@example.com", amount_cents=700, card_token="t", created_at=moment
    )


def read(storage, name):
    with storage.open(name) as file:
        return file.read()


def test_the_report_has_the_orders_and_payments_of_exactly_that_day(storage):
    moments = (
        -timedelta(microseconds=1),
        timedelta(0),
        timedelta(days=1, microseconds=-1),
        timedelta(days=1),
    )
    before, first, last, after = (make_order(START + moment) for moment in moments)
    payment = Payment.objects.create(
        order=before, amount_cents=700, currency="EUR", provider_reference="made-up", created_at=START
    )

    name = services.build_report(DAY, storage=storage, clock=NEXT_DAY)

    assert name == "reports/2031/orders-2031-05-04.csv"
    assert read(storage, name).decode().splitlines() == [
        "record,id,order,moment,amount_cents,currency",
        f"order,{first.pk},{first.pk},2031-05-04T00:00:00.000000+00:00,700,EUR",
        f"order,{last.pk},{last.pk},2031-05-04T23:59:59.999999+00:00,700,EUR",
        f"payment,{payment.pk},{before.pk},2031-05-04T00:00:00.000000+00:00,700,EUR",
    ]
    assert str(after.created_at.date()) == "2031-05-05"


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_a_second_run_gives_the_same_file_and_no_other(storage, kind):
    storage = storage if kind == "disk" else InMemoryStorage()
    for hour in range(20):
        make_order(START + timedelta(hours=hour))

    name = services.build_report(DAY, storage=storage, clock=NEXT_DAY)
    content = read(storage, name)
    Order.objects.update(state=Order.State.PAID)  # what changes later is not in the report
    again = services.build_report(DAY, storage=storage, clock=NEXT_DAY)

    assert (again, read(storage, again)) == (name, content)
    assert storage.listdir("reports/2031")[1] == ["orders-2031-05-04.csv"]


def test_a_day_that_is_not_over_is_refused_and_not_retried(storage):
    with pytest.raises(services.UnfinishedDay) as caught:
        services.build_report(DAY, storage=storage, clock=FixedClock(START + timedelta(hours=23)))

    assert (
        str(caught.value) == "The day 2031-05-04 is not over: it is 2031-05-04 (UTC). Ask for an earlier day."
    )
    assert not build_nightly_report.retry_policy.matches(caught.value)


def test_the_task_builds_the_report_of_a_day_in_the_default_storage():
    build_nightly_report(day="2020-02-29")

    assert default_storage.exists("reports/2020/orders-2020-02-29.csv")


def test_the_task_builds_yesterday_when_it_is_given_no_day():
    before = datetime.now(UTC).date()
    build_nightly_report()
    after = datetime.now(UTC).date()

    names = [services.report_name(today - timedelta(days=1)) for today in (before, after)]
    assert any(default_storage.exists(name) for name in names)


def test_a_late_run_reports_the_day_before_its_publish():
    published = datetime.now(UTC) - timedelta(days=5)
    request = SimpleNamespace(headers={"first_published_at": published.timestamp()})

    assert day_before_publish(request) == published.date() - timedelta(days=1)


def test_a_file_that_could_not_be_written_leaves_the_old_one_and_nothing_else(storage):
    class Breaks(io.BytesIO):
        def read(self, *args):
            if self.tell():
                raise OSError("the source broke")
            return super().read(3)

    replace_file(storage, "a/b.csv", io.BytesIO(b"old"))

    with pytest.raises(OSError, match="the source broke"):
        replace_file(storage, "a/b.csv", Breaks(b"new content"))

    assert read(storage, "a/b.csv") == b"old"
    assert storage.listdir("a") == ([], ["b.csv"])


def test_a_written_file_can_be_read_by_others(storage, tmp_path):
    replace_file(storage, "b.csv", io.BytesIO(b"x"))

    assert (tmp_path / "b.csv").stat().st_mode & 0o777 == 0o644


def test_expired_sessions_are_removed_and_the_others_kept():
    expired = create_sessions(40, random.Random(5), expired_share=0.5)
    kept = set(Session.objects.exclude(pk__in=expired).values_list("pk", flat=True))

    clear_expired_sessions()

    assert 0 < len(expired) < 40
    assert set(Session.objects.values_list("pk", flat=True)) == kept


def test_sessions_are_removed_in_chunks(django_assert_num_queries):
    create_sessions(10, random.Random(5), expired_share=1.0)

    # Three chunks of a read and a delete, and the read that finds nothing more.
    with django_assert_num_queries(7):
        assert sessions.clear_expired(chunk_size=4) == 10


def test_another_kind_of_session_store_is_asked_to_do_it_itself():
    class Store(SessionBase):
        asked = 0

        @classmethod
        def clear_expired(cls):
            cls.asked += 1

    assert sessions.clear_expired(Store) is None
    assert Store.asked == 1


def test_the_schedules_are_installed_once():
    output = io.StringIO()

    call_command("install_schedules", stdout=output)
    assert install_schedules(SCHEDULES) == []

    rows = PeriodicTask.objects.in_bulk(field_name="name")
    assert set(SCHEDULES) <= set(rows)
    for name, schedule in SCHEDULES.items():
        assert (rows[name].task, rows[name].expire_seconds) == (schedule.task, schedule.expire_seconds)
        assert str(rows[name].crontab.timezone) == "UTC"
    assert "nightly-report: created (reports.build_nightly_report, 15 0 * * * UTC)" in output.getvalue()


def test_a_schedule_that_somebody_has_changed_is_left_alone():
    install_schedules(SCHEDULES)
    weekly = CrontabSchedule.objects.create(minute="0", hour="6", day_of_week="1")
    PeriodicTask.objects.filter(name="nightly-report").update(enabled=False, crontab=weekly, expire_seconds=7)
    PeriodicTask.objects.filter(name="clear-expired-sessions").delete()

    assert install_schedules(SCHEDULES) == ["clear-expired-sessions"]

    changed = PeriodicTask.objects.get(name="nightly-report")
    assert (changed.enabled, changed.crontab, changed.expire_seconds) == (False, weekly, 7)


def test_the_same_crontab_is_shared_also_where_it_exists_twice():
    for _ in range(2):
        CrontabSchedule.objects.create(minute="15", hour="0", timezone="UTC")

    install_schedules(SCHEDULES)

    assert CrontabSchedule.objects.filter(minute="15", hour="0").count() == 2


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_a_message_expires_after_one_interval(name):
    install_schedules(SCHEDULES)
    crontab = PeriodicTask.objects.get(name=name).crontab.schedule

    def next_after(moment):
        start, remaining, _ = crontab.remaining_delta(moment)
        return start + remaining

    first = next_after(START)
    assert (next_after(first) - first).total_seconds() == SCHEDULES[name].expire_seconds


def test_the_scheduled_tasks_exist():
    names = {build_nightly_report.name, clear_expired_sessions.name}

    assert {schedule.task for schedule in SCHEDULES.values()} == names
