"""A state store in the database inside Django's own test cases, and on a database that it does not know."""

import pytest
from django.db import connection, transaction

from taskyard.errors import ConfigurationError
from taskyard.state.database import DatabaseStore


def acquire(store):
    return store.acquire("k", owner="a", holder={}, lease_seconds=60)


@pytest.mark.django_db
def test_inside_a_test_case_a_claim_is_part_of_its_transaction():
    store = DatabaseStore()

    with transaction.atomic():
        assert acquire(store).is_granted
        transaction.set_rollback(True)

    assert store.read("k") is None


@pytest.mark.django_db
def test_a_database_of_another_kind_is_refused(monkeypatch):
    monkeypatch.setattr(connection, "vendor", "mysql")

    with pytest.raises(ConfigurationError, match=r"'default': mysql\. Use PostgreSQL, or set TASKYARD_STATE"):
        acquire(DatabaseStore())
