"""Probe tasks that try to tell what they have been told to keep to themselves."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from typing import Any

import structlog
from celery import shared_task
from celery.exceptions import Reject, SoftTimeLimitExceeded
from pydantic import BaseModel

from taskyard import Cancel, Fixed, Never, Snooze
from tests.probe_app.recording import record_run

SOON = Fixed(seconds=0.05, max_retries=1, reason="tests wait for it")
logger = logging.getLogger("shop.payments")
log = structlog.stdlib.get_logger("shop.payments")


class ComputedError(Exception):
    """Its text is not made of anything that can be reached."""

    def __init__(self, card: str) -> None:
        super().__init__()
        self.say = lambda: f"computed {card}"

    def __str__(self) -> str:
        return self.say()


class Card(BaseModel):
    """Says in its error what it was given."""

    number: int


class Holder:
    """Says in its text what it holds."""

    def __init__(self, card: str) -> None:
        self.card = card

    def __repr__(self) -> str:
        return f"Holder({self.card!r})"


def _cause(card: str) -> None:
    try:
        raise KeyError(card)
    except KeyError as error:
        raise RuntimeError("refused") from error


def _context(card: str) -> None:
    try:
        raise KeyError(card)
    except KeyError:
        raise RuntimeError("refused")  # noqa: B904 - the context is meant


def _note(card: str) -> None:
    error = RuntimeError("refused")
    error.add_note(f"the card was {card}")
    raise error


def _logged(card: str) -> None:
    logger.warning("charging %s", card)
    log.warning("charging", card=card, nested=[{"card": card}])
    try:
        raise ValueError(f"no {card}")
    except ValueError:
        logger.exception("it failed")
        log.exception("it failed")
        raise


def _raise(error: BaseException) -> None:
    raise error


WAYS = {
    "text": lambda card: _raise(ValueError(f"card {card} refused")),
    "arguments": lambda card: _raise(ValueError("refused", {"card": [card]}, card)),
    "object": lambda card: _raise(ValueError(Holder(card))),
    "digits": lambda card: _raise(ValueError(card.replace("-", ""))),
    "key": lambda card: {}[card],
    "file": lambda card: open(f"/nowhere/{card}"),  # noqa: SIM115, PTH123 - it does not exist
    "json": lambda card: json.loads(f'["{card}" ?]'),
    "cause": _cause,
    "context": _context,
    "group": lambda card: _raise(ExceptionGroup(f"for {card}", [KeyError(card), ComputedError(card)])),
    "note": _note,
    "computed": lambda card: _raise(ComputedError(card)),
    "validation": lambda card: Card(number=card),
    "memory": lambda card: _raise(MemoryError(f"no room for {card}")),
    "exit": lambda card: _raise(SystemExit(f"no {card}")),
    "log": _logged,
    "reject": lambda card: _raise(Reject(card, requeue=False)),
    "result": lambda card: {card},  # no JSON
}


@shared_task(name="probe.tell", bind=True, redact=("card_number",), retry=SOON, ignore_result=False)
def tell(self: Any, key: str, card_number: str, way: str) -> Any:
    """Fail in the given way, twice: once to be retried, and for good."""
    record_run(self, "start", key)
    return WAYS[way](card_number)


def _tell_in_hook(self: Any, *arguments: Any) -> None:
    record_run(self, "hook", "hooks")
    raise ValueError(f"in a hook: {arguments}")


@shared_task(
    name="probe.tell_before",
    bind=True,
    redact=("card_number",),
    retry=Never(),
    ignore_result=False,
    before_start=_tell_in_hook,
)
def tell_before(self: Any, card_number: str) -> None:
    """Never comes to this."""


@shared_task(
    name="probe.tell_after",
    bind=True,
    redact=("card_number",),
    retry=Never(),
    on_success=_tell_in_hook,
    after_return=_tell_in_hook,
)
def tell_after(self: Any, card_number: str) -> None:
    """Its hooks fail."""


@shared_task(name="probe.tell_in_retry", bind=True, redact=("card_number",), retry=Never())
def tell_in_retry(self: Any, key: str, card_number: str) -> None:
    """Ask for the retry itself."""
    record_run(self, "start", key)
    raise self.retry(exc=ComputedError(card_number), countdown=0.05, max_retries=1)


@shared_task(name="probe.tell_in_result", bind=True, redact=("card_number",), retry=SOON)
def tell_in_result(self: Any, key: str, card_number: str) -> str:
    return f"charged {card_number}"


@shared_task(name="probe.tell_in_snooze", bind=True, redact=("card_number",), retry=Never())
def tell_in_snooze(self: Any, key: str, card_number: str, marker: str) -> None:
    """Snooze once, then cancel."""
    record_run(self, "start", key)
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        raise Cancel(f"no {card_number}") from None
    raise Snooze(0.05, f"waits for {card_number}")


@shared_task(
    name="probe.tell_in_time",
    bind=True,
    redact=("card_number",),
    retry=Never(),
    soft_time_limit=0.5,
    time_limit=1.2,
)
def tell_in_time(self: Any, key: str, card_number: str) -> None:
    """Hold on until the hard limit."""
    record_run(self, "start", key)
    pause = threading.Event()
    for _ in range(1000):
        try:
            pause.wait(0.02)
        except SoftTimeLimitExceeded:
            logger.warning("hold on to %s", card_number)


@shared_task(name="probe.tell_and_die", bind=True, redact=("card_number",), retry=SOON)
def tell_and_die(self: Any, key: str, card_number: str) -> None:
    """Fail once, then lose the process until it is too often."""
    record_run(self, "start", key)
    if self.request.retries == 0:
        raise ValueError(f"no {card_number}")
    os.kill(os.getpid(), signal.SIGKILL)
