"""Input for demonstrations and load tests: invented users."""

from __future__ import annotations

import random

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.db.models import Max

FIRST_NAMES = ("Alder", "Birch", "Cedar", "Elm", "Hazel", "Juniper", "Linden", "Maple", "Rowan", "Willow")
LAST_NAMES = ("Sample", "Example", "Placeholder", "Specimen", "Testcase", "Mockup", "Synthetic", "Invented")
BATCH_SIZE = 1000


def create_users(count: int, rng: random.Random) -> list[int]:
    """Insert users that obviously do not exist, and return their ids.

    They have addresses at example.com, which belongs to nobody, and no password that works.

    Args:
        count: how many.
        rng: the same seed makes the same names.
    """
    User = get_user_model()
    first_number = (User.objects.aggregate(last=Max("pk"))["last"] or 0) + 1
    password = make_password(None)
    users = [
        User(
            username=f"invented-{number}",
            email=f"invented-{number}@example.com",
            first_name=rng.choice(FIRST_NAMES),
            last_name=rng.choice(LAST_NAMES),
            password=password,
        )
        for number in range(first_number, first_number + count)
    ]
    return [user.pk for user in User.objects.bulk_create(users, batch_size=BATCH_SIZE)]
