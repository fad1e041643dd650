"""Input for demonstrations and load tests: invented orders."""

from __future__ import annotations

import random
from datetime import timedelta

from tasks.orders.models import Order
from tasks.orders.providers import TOKEN_ACCEPTED, TOKEN_DECLINED, TOKEN_UNSTABLE
from taskyard.clock import SYSTEM_CLOCK, Clock

BATCH_SIZE = 1000
DAY_SECONDS = 24 * 3600
CURRENCIES = ("EUR", "USD", "GBP")


def create_orders(
    count: int,
    rng: random.Random,
    *,
    declined_share: float = 0.02,
    unstable_share: float = 0.05,
    clock: Clock = SYSTEM_CLOCK,
) -> list[int]:
    """Insert orders of the last 24 hours that nobody placed, and return their ids. Nothing is published.

    Args:
        count: how many.
        rng: the same seed makes the same orders.
        declined_share: part of them whose card is declined, 0 to 1.
        unstable_share: part of them for which the provider fails to answer at times, 0 to 1.
        clock: the end of the 24 hours.
    """
    now = clock.now()
    tokens = (TOKEN_DECLINED, TOKEN_UNSTABLE, TOKEN_ACCEPTED)
    weights = (declined_share, unstable_share, 1 - declined_share - unstable_share)
    orders = [
        Order(
            customer_email=f"invented-{rng.randrange(100_000)}@example.com",
            amount_cents=round(rng.lognormvariate(8.0, 0.8)) + 100,
            currency=rng.choices(CURRENCIES, weights=(8, 1, 1))[0],
            card_token=rng.choices(tokens, weights=weights)[0],
            created_at=now - timedelta(seconds=rng.uniform(0, DAY_SECONDS)),
        )
        for _ in range(count)
    ]
    return [order.pk for order in Order.objects.bulk_create(orders, batch_size=BATCH_SIZE)]
