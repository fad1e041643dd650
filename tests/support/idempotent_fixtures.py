"""Fixtures of the tests of idempotent tasks: tasks that count their effects, and other runs."""

from __future__ import annotations

import pytest

from taskyard import IdempotentTask

KEY = "idempotent:outcome.probe:7"


@pytest.fixture
def idempotent(declare, store, recorded_failures):
    """Declare an idempotent task with the given body."""

    def idempotent(body, **options):
        return declare(
            body, **{"base": IdempotentTask, "idempotency_key": "order_id", "bind": True} | options
        )

    return idempotent


@pytest.fixture
def counting(idempotent):
    """Declare a task that counts its effects in `counting.effects`."""
    effects = []

    def body(self, order_id):
        effects.append(order_id)
        return {"number": len(effects)}

    def counting(**options):
        return idempotent(body, **options)

    counting.effects = effects
    return counting


def returning(result):
    def body(self, order_id):
        return result

    return body


def raising(error):
    def body(self, order_id):
        raise error

    return body


def hold(store, *, task_id, key=KEY, seconds=10):
    """Have another run hold the key, as its worker would."""
    holder = {"task_id": task_id, "task": "outcome.probe", "worker": "other@host"}
    attempt = store.acquire(key, owner="other", holder=holder, lease_seconds=seconds)
    assert attempt.is_granted
