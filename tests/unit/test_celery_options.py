"""The Celery configuration: the promises that stand on an option, and what a project may change."""

from __future__ import annotations

import pytest
from celery.app.defaults import SETTING_KEYS

from taskyard.app import FLOORS, check_floors
from taskyard.celery_options import RESERVED, check_project_options
from taskyard.errors import ConfigurationError, SettingsError
from taskyard.queues import DEFAULT_QUEUES


@pytest.fixture
def conf(memory_app):
    return memory_app.conf


def test_messages_and_results_are_json_only(conf):
    assert conf.accept_content == conf.result_accept_content == ["json"]
    assert conf.task_serializer == conf.result_serializer == conf.event_serializer == "json"


def test_times_are_utc(conf):
    assert conf.enable_utc is True
    assert conf.timezone == "UTC"


def test_a_task_whose_worker_dies_comes_back_within_a_bound(conf):
    assert conf.task_acks_late is True
    assert conf.task_retry_on_worker_lost is True
    # without a bound it would loop (c#1628)
    assert conf.task_reject_on_worker_lost is False


def test_queues_are_declared_and_never_made_by_a_misspelling(conf):
    assert [queue.name for queue in conf.task_queues] == [spec.name for spec in DEFAULT_QUEUES]
    assert conf.task_create_missing_queues is False
    for queue in conf.task_queues:
        assert queue.exchange.name == queue.routing_key == queue.name


def test_queues_of_the_project_are_declared_too(make_app):
    app = make_app(QUEUES={"mail": {}}, DEFAULT_QUEUE="mail")

    assert [queue.name for queue in app.conf.task_queues][-1] == "mail"
    assert app.conf.task_default_queue == "mail"
    assert app.send_task("any.task").id


def test_results_are_off_unless_a_task_asks(conf):
    assert conf.task_ignore_result is True


def test_a_publish_does_not_wait_for_longer_than_its_budget(make_app):
    conf = make_app(PUBLISH_TIMEOUT_SECONDS=1.5).conf

    assert conf.broker_pool_acquire_timeout == 1.5
    assert conf.broker_connection_timeout <= 1.5
    assert conf.task_publish_retry_policy["max_retries"] == 1


def test_a_worker_waits_for_its_broker_for_as_long_as_it_takes(conf):
    assert conf.broker_connection_retry_on_startup is True
    assert conf.broker_connection_max_retries is None


def test_flower_gets_its_events(conf):
    assert conf.worker_send_task_events is True


def test_a_project_may_change_what_no_promise_stands_on(settings, make_app):
    settings.CELERY_WORKER_MAX_TASKS_PER_CHILD = 7

    assert make_app().conf.worker_max_tasks_per_child == 7


def test_a_misspelt_setting_stops_the_start(settings, make_app):
    settings.CELERY_WORKER_MAX_TASK_PER_CHILD = 7

    with pytest.raises(SettingsError) as caught:
        make_app()

    assert caught.value.problems == (
        "CELERY_WORKER_MAX_TASK_PER_CHILD is not a Celery setting. "
        "Did you mean 'CELERY_WORKER_MAX_TASKS_PER_CHILD'?",
    )


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_what_a_promise_stands_on_is_refused_with_the_reason(name):
    with pytest.raises(SettingsError) as caught:
        check_project_options({name: "x"})

    assert caught.value.problems == (f"{name} is not yours to set. {RESERVED[name]}",)


def test_the_reserved_names_are_celerys():
    assert {name.removeprefix("CELERY_").lower() for name in RESERVED} <= set(SETTING_KEYS)


def test_versions_below_the_floor_are_refused(monkeypatch):
    monkeypatch.setitem(FLOORS, "celery", (99, 1))

    with pytest.raises(ConfigurationError) as caught:
        check_floors()

    assert str(caught.value).endswith(
        "is installed; Taskyard needs 99.1 or newer. Install it with: pip install 'celery>=99.1'"
    )
