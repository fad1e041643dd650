"""Input for demonstrations and load tests: invented sessions."""

from __future__ import annotations

import random
from datetime import timedelta

from django.contrib.sessions.models import Session

from taskyard.clock import SYSTEM_CLOCK, Clock

BATCH_SIZE = 1000
TWO_WEEKS_SECONDS = 14 * 24 * 3600


def create_sessions(
    count: int, rng: random.Random, *, expired_share: float = 0.8, clock: Clock = SYSTEM_CLOCK
) -> list[str]:
    """Insert sessions of nobody, and return the keys of those that have expired.

    Args:
        count: how many.
        rng: the same seed makes the same sessions.
        expired_share: part of them that has expired, 0 to 1.
        clock: the moment around which they expire.
    """
    now = clock.now()
    sessions = []
    for _ in range(count):
        distance = timedelta(seconds=rng.uniform(60, TWO_WEEKS_SECONDS))
        moment = now - distance if rng.random() < expired_share else now + distance
        sessions.append(
            Session(session_key=f"{rng.getrandbits(128):032x}", session_data="", expire_date=moment)
        )
    Session.objects.bulk_create(sessions, batch_size=BATCH_SIZE, ignore_conflicts=True)
    return [session.session_key for session in sessions if session.expire_date < now]
