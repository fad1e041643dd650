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

__all__ = [
    "broker",
    "database_template",
    "new_site",
    "own_broker",
    "own_valkey",
    "postgres",
    "postgres_database",
    "shared_site",
    "valkey",
]
