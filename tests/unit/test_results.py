"""What the result backend stores of a task's arguments."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from celery import states
from celery.app.task import Context
from django_celery_results.models import TaskResult

from taskyard.database_results import DatabaseBackend
from taskyard.masking import MASK
from taskyard.results import RedisBackend


def through_json(value):
    return json.loads(json.dumps(value))


def stored(app, task_name: str) -> tuple:
    request = SimpleNamespace(
        task=task_name,
        args=[7, "4111"],
        kwargs={},
        delivery_info={"routing_key": "default"},
        hostname="w",
        retries=0,
    )
    backend = RedisBackend(app=app, url="redis://127.0.0.1:1/0")
    meta = backend._get_result_meta(None, states.SUCCESS, None, request)
    return meta["args"], meta["kwargs"]


def declare(app, **options):
    @app.task(name="area.probe", **options)
    def probe(order_id, card_number): ...

    return app.tasks["area.probe"]


def test_marked_arguments_are_stored_masked(memory_app):
    declare(memory_app, redact=("card_number",))

    assert stored(memory_app, "area.probe") == ([7, "******"], {})


def test_other_arguments_are_stored_as_they_are(memory_app):
    declare(memory_app)

    assert stored(memory_app, "area.probe") == ([7, "4111"], {})


class TestInTheDatabase:
    """The same, where RESULT_BACKEND is django-db."""

    @pytest.fixture
    def app(self, make_app, settings):
        del settings.CELERY_RESULT_BACKEND
        return make_app(RESULT_BACKEND="django-db")

    def stored(self, app, request, state=states.FAILURE, error=None, traceback=None):
        app.backend.store_result("id-1", error or ValueError("x"), state, traceback, request=request)
        return TaskResult.objects.get(task_id="id-1")

    def test_a_call_is_stored_masked(self, db, app):
        declare(app, redact=("card_number",))
        request = Context(task="area.probe", args=[7, "4111"], kwargs={}, hostname="w")

        row = self.stored(app, request, error=ValueError("no 4111"), traceback="in 4111")

        assert isinstance(app.backend, DatabaseBackend)
        assert MASK in row.task_args
        assert "4111" not in f"{row.task_args} {row.task_kwargs} {row.result} {row.traceback}"

    def test_a_step_that_was_never_published_is_stored_masked(self, db, app):
        task = declare(app, redact=("card_number",))
        step = task.s("4111")
        request = Context(through_json(step))

        row = self.stored(app, request)

        assert "4111" not in f"{row.task_args} {row.task_kwargs}"

    def test_what_is_not_marked_is_stored_as_it_is(self, db, app):
        declare(app)
        request = Context(
            task="area.probe", args=[7, "4111"], kwargs={}, argsrepr="(7, '4111')", hostname="w"
        )

        row = self.stored(app, request, state=states.SUCCESS, error={"charged": "4111"})

        assert "4111" in row.task_args
        assert "4111" in row.result


def test_a_step_that_was_never_published_is_stored_masked_on_redis(memory_app):
    step = declare(memory_app, redact=("card_number",)).s("4111")
    backend = RedisBackend(app=memory_app, url="redis://127.0.0.1:1/0")

    meta = backend._get_result_meta({}, states.FAILURE, None, Context(through_json(step)))

    assert meta["args"] == [MASK]


def test_what_a_failed_call_says_is_stored_masked(memory_app):
    declare(memory_app, redact=("card_number",))
    backend = RedisBackend(app=memory_app, url="redis://127.0.0.1:1/0")
    request = Context(task="area.probe", args=[7, "4111"], kwargs={})

    meta = backend._get_result_meta({"exc_message": ["no 4111"]}, states.FAILURE, "in 4111", request)

    assert (meta["result"], meta["traceback"]) == ({"exc_message": [f"no {MASK}"]}, f"in {MASK}")
