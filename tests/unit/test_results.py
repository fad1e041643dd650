"""What the result backend stores of a task's arguments."""

from __future__ import annotations

from types import SimpleNamespace

from celery import states

from taskyard.results import RedisBackend


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
