"""Fixtures: brokers, databases and sites of real processes."""

from tests.support.breaker_fixtures import breaker_server, fleet
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
    "breaker_server",
    "broker",
    "database_template",
    "fleet",
    "new_site",
    "own_broker",
    "own_valkey",
    "postgres",
    "postgres_database",
    "shared_site",
    "valkey",
]
