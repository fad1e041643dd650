"""Commands answer a person: their own log lines do not stand beside the answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_KIT = "taskyard"


@contextmanager
def quiet_kit(*, verbosity: int = 1) -> Iterator[None]:
    """Keep the kit's log lines below WARNING from the terminal while a management command answers.

    Args:
        verbosity: Django's `--verbosity`; from 2 on nothing is kept back.
    """
    logger = logging.getLogger(_KIT)
    before = logger.level
    if verbosity < 2:
        logger.setLevel(max(logging.WARNING, logger.getEffectiveLevel()))
    try:
        yield
    finally:
        logger.setLevel(before)
