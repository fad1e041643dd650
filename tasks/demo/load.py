"""The load of a demonstration: all reference tasks, on real input, through all five queues."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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


Piece = Callable[[], object]


class Load:
    """Prepares the input and makes the pieces of work, each under a correlation id of this demonstration.

    Args:
        run: the demonstration.
        folder: where input files are made.
        rng: the same seed makes the same load.
        say: tells the person what is made.
    """

    def __init__(self, run: str, *, folder: Path, rng: random.Random, say: Callable[[str], None]) -> None:
        self.run, self.folder, self.rng, self.say = run, folder, rng, say
        self._numbers = count(1)

    def pieces(self, size: Size, *, receiver_url: str) -> list[Piece]:
        """Return what to publish, as calls, in the mixed order of a busy day; the two long ones first."""
        long_ones = [self._import(size.rows), self._pictures(size.pictures)]
        user_ids, mails = self._mails(size.users)
        short_ones = [
            *mails,
            *self._orders(size.orders),
            *self._activities(size.activities, user_ids),
            *self._webhooks(size.webhooks, receiver_url),
            *self._schedules(),
        ]
        self.rng.shuffle(short_ones)
        return [self._correlated(piece) for piece in (*long_ones, *short_ones)]

    def _correlated(self, piece: Piece) -> Piece:
        own_id = correlation_id(self.run, next(self._numbers))

        def publish() -> object:
            with correlated(own_id):
                return piece()

        return publish

    def _import(self, rows: int) -> Piece:
        from tasks.imports.load import write_products_csv
        from tasks.imports.services import start_import

        path = self.folder / "products.csv"
        expected = write_products_csv(path, rows, self.rng)
        self.say(f"  bulk      a CSV of {rows:,} products, {expected.rejected:,} of them wrong on purpose")
        return partial(start_import, path)

    def _pictures(self, pictures: int) -> Piece:
        from tasks.media.load import generate_photographs
        from tasks.media.services import start_image_set

        made = generate_photographs(self.folder / "photographs", pictures, self.rng)
        self.say(f"  bulk      a folder of {made.count} photographs, {made.broken} broken on purpose")
        return partial(start_image_set, made.folder)

    def _mails(self, users: int) -> tuple[list[int], list[Piece]]:
        from tasks.mail.load import create_users
        from tasks.mail.tasks import send_welcome

        user_ids = create_users(users, self.rng)
        self.say(f"  low       {users} welcome mails")
        return user_ids, [partial(send_welcome.delay, user_id) for user_id in user_ids]

    def _orders(self, orders: int) -> list[Piece]:
        from tasks.orders.load import create_orders
        from tasks.orders.tasks import charge_order

        self.say(f"  critical  {orders} orders to charge, some cards declined (receipts: high)")
        return [partial(charge_order.delay, order_id) for order_id in create_orders(orders, self.rng)]

    def _activities(self, activities: int, user_ids: list[int]) -> list[Piece]:
        from tasks.timeline.load import record_activities
        from tasks.timeline.tasks import apply_activity

        authors = user_ids[:40]
        recorded = record_activities(activities, self.rng, user_ids=authors)
        self.say(f"  default   {activities} activities of {len(authors)} users, sent out of order")
        return [partial(apply_activity.delay, user_id, activity_id) for user_id, activity_id in recorded]

    def _webhooks(self, webhooks: int, receiver_url: str) -> list[Piece]:
        from tasks.webhooks.load import create_deliveries
        from tasks.webhooks.tasks import deliver

        delivery_ids = create_deliveries(webhooks, self.rng, url=receiver_url)
        self.say(f"  high      {webhooks} signed webhooks to a receiver that fails one time in ten")
        return [partial(deliver.delay, delivery_id) for delivery_id in delivery_ids]

    def _schedules(self) -> list[Piece]:
        from tasks.reports.tasks import build_nightly_report, clear_expired_sessions

        self.say("  default   the nightly report and the clean-up of sessions")
        return [build_nightly_report.delay, clear_expired_sessions.delay]
