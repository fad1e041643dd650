"""Fixtures: brokers, databases and sites of real processes."""

from tests.support.fixtures import (
    broker,
    database_template,
    new_site,
    own_broker,
    own_valkey,
    postgres,
    postgres_database,
    shared_site,
    valkey,
)
from tests.support.leased_fixtures import durable_broker, effects, start_worker

__all__ = [
    "broker",
    "database_template",
    "durable_broker",
    "effects",
    "new_site",
    "own_broker",
    "own_valkey",
    "postgres",
    "postgres_database",
    "shared_site",
    "start_worker",
    "valkey",
]
