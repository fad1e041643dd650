"""The reference project charging orders, for fault tests: its database, its messages, its books."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from taskyard import create_app
from taskyard.app import TaskyardCelery
from taskyard.conf import build_settings, settings_from_environ
from taskyard.transport.queues import delayed, depth, leased
from tests.support.order_books import OrderBooks
from tests.support.postgres import PostgresServer
from tests.support.servers import RespServer
from tests.support.sites import probe_environment
from tests.support.workers import ROOT

QUEUE = "critical"
TASK = "orders.charge_order"
PLACE = """
    INSERT INTO orders_order (customer_email, amount_cents, currency, card_token, state, created_at)
    SELECT 'invented-' || n || '@example.com', 100 + n, 'EUR', 'sandbox-accepted', 'placed', now()
    FROM generate_series(1, %s) AS n RETURNING id
"""


class Charges:
    """Orders that wait to be charged, and what has become of them.

    Args:
        directory: for the history and the logs.
        broker: also the state store.
        postgres: has the database.
        database: migrated for the probe project; the tables of the reference tasks are added.
        settings: values by upper-case name, as in `TASKYARD = {...}`.
    """

    def __init__(
        self, directory: Path, broker: RespServer, postgres: PostgresServer, database: str, **settings: Any
    ) -> None:
        self.history = directory / "history.jsonl"
        self.broker = broker
        self.postgres = postgres
        self.database = database
        self.environment = {
            **probe_environment(directory),
            "DJANGO_SETTINGS_MODULE": "tests.orders_settings",
            "DATABASE_URL": postgres.url(database),
            "PROBE_HISTORY": str(self.history),
            "TASKYARD_BROKER_URL": broker.url,
            **{f"TASKYARD_{name}": str(value) for name, value in settings.items()},
        }
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity=0"],
            cwd=ROOT,
            env=self.environment,
            check=True,
            timeout=120,
        )

    @cached_property
    def app(self) -> TaskyardCelery:
        settings = build_settings(settings_from_environ(self.environment))
        return create_app("charges", settings=settings, set_as_current=False)

    def place(self, count: int) -> list[int]:
        """Insert so many orders, and return their ids."""
        return [row[0] for row in self.query(PLACE, count)]

    def publish(self, order_ids: Iterable[int]) -> None:
        for order_id in order_ids:
            self.app.send_task(TASK, (order_id,), queue=QUEUE)

    def query(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        return self.postgres.execute(self.database, statement, *arguments)

    def count(self, what: str) -> int:
        return int(self.query(f"SELECT count(*) FROM {what}")[0][0])

    def books(self) -> OrderBooks:
        return OrderBooks.read(self.history)

    def waiting(self) -> int:
        """Return how many messages wait for a worker."""
        return depth(self.broker.client(), QUEUE)

    def is_idle(self) -> bool:
        """Return whether no message of the charges is anywhere."""
        client = self.broker.client()
        return not (depth(client, QUEUE) or delayed(client, QUEUE) or leased(client))

    def close(self) -> None:
        if "app" in vars(self):
            self.app.close()
