"""The load of a demonstration: all reference tasks, on real input, through all five queues."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tasks.demo.journal import correlation_id
from taskyard.correlation import correlated


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything is sent."""

    users: int = 200
    orders: int = 300
    activities: int = 400
    webhooks: int = 150
    pictures: int = 24
    rows: int = 50_000

    def scaled(self, factor: float) -> Size:
        """Return a load `factor` times as large, of at least one of everything."""
        names = ("users", "orders", "activities", "webhooks", "pictures", "rows")
        return Size(**{name: max(1, round(getattr(self, name) * factor)) for name in names})


class Sender:
    """Sends the load, each piece of work under a correlation id of this demonstration.

    Args:
        run: the demonstration.
        folder: where input files are made.
        rng: the same seed makes the same load.
        say: tells the person what happens.
    """

    def __init__(self, run: str, *, folder: Path, rng: random.Random, say: Callable[[str], None]) -> None:
        self.run, self.folder, self.rng, self.say = run, folder, rng, say
        self._numbers = count(1)

    @contextmanager
    def piece(self) -> Iterator[None]:
        """Make what is published inside one piece of work."""
        with correlated(correlation_id(self.run, next(self._numbers))):
            yield

    def send(self, size: Size, *, receiver_url: str) -> None:
        """Prepare the input and publish everything, the slowest work first."""
        self._import(size.rows)
        self._pictures(size.pictures)
        user_ids = self._mails(size.users)
        self._orders(size.orders)
        self._activities(size.activities, user_ids)
        self._webhooks(size.webhooks, receiver_url)
        self._schedules()

    def _import(self, rows: int) -> None:
        from tasks.imports.load import write_products_csv
        from tasks.imports.services import start_import

        path = self.folder / "products.csv"
        expected = write_products_csv(path, rows, self.rng)
        self.say(f"CSV of {rows:,} products, {expected.rejected:,} of them wrong on purpose -> bulk")
        with self.piece():
            start_import(path)

    def _pictures(self, pictures: int) -> None:
        from tasks.media.load import generate_photographs
        from tasks.media.services import start_image_set

        made = generate_photographs(self.folder / "photographs", pictures, self.rng)
        self.say(f"folder of {made.count} photographs, {made.broken} broken on purpose -> bulk")
        with self.piece():
            start_image_set(made.folder)

    def _mails(self, users: int) -> list[int]:
        from tasks.mail.load import create_users
        from tasks.mail.tasks import send_welcome

        user_ids = create_users(users, self.rng)
        self.say(f"{users} welcome mails -> low")
        for user_id in user_ids:
            with self.piece():
                send_welcome.delay(user_id)
        return user_ids

    def _orders(self, orders: int) -> None:
        from tasks.orders.load import create_orders
        from tasks.orders.tasks import charge_order

        order_ids = create_orders(orders, self.rng)
        self.say(f"{orders} orders to charge, a few cards declined -> critical, their receipts -> high")
        for order_id in order_ids:
            with self.piece():
                charge_order.delay(order_id)

    def _activities(self, activities: int, user_ids: list[int]) -> None:
        from tasks.timeline.load import record_activities
        from tasks.timeline.tasks import apply_activity

        recorded = record_activities(activities, self.rng, user_ids=user_ids[:40])
        self.rng.shuffle(recorded)
        self.say(f"{activities} activities of {min(40, len(user_ids))} users, sent out of order -> default")
        for user_id, activity_id in recorded:
            with self.piece():
                apply_activity.delay(user_id, activity_id)

    def _webhooks(self, webhooks: int, receiver_url: str) -> None:
        from tasks.webhooks.load import create_deliveries
        from tasks.webhooks.tasks import deliver

        delivery_ids = create_deliveries(webhooks, self.rng, url=receiver_url)
        self.say(f"{webhooks} signed webhooks to a receiver that fails one time in ten -> high")
        for delivery_id in delivery_ids:
            with self.piece():
                deliver.delay(delivery_id)

    def _schedules(self) -> None:
        from tasks.reports.tasks import build_nightly_report, clear_expired_sessions

        self.say("the nightly report and the session clean-up -> default")
        for task in (build_nightly_report, clear_expired_sessions):
            with self.piece():
                task.delay()
