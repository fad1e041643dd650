"""A payment provider with books of its own, outside of the project's database, and reading them."""

from __future__ import annotations

import json
import os
import random
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tasks.orders.providers import Charge, SandboxProvider
from tests.probe_app.recording import record

# What the provider takes for an answer: between the two, a killed process has charged and not recorded it.
ANSWER_SECONDS = (0.002, 0.03)
GATE_TIMEOUT_SECONDS = 60.0


class BookkeepingProvider(SandboxProvider):
    """The sandbox, with a line in the history for each question and each answer.

    As long as the file named by ORDERS_GATE does not exist, there is no answer.
    """

    def charge(self, *, amount_cents: int, currency: str, card_token: str, idempotency_key: str) -> Charge:
        record("asked", idempotency_key)
        _take_time()
        charge = super().charge(
            amount_cents=amount_cents,
            currency=currency,
            card_token=card_token,
            idempotency_key=idempotency_key,
        )
        record("answered", idempotency_key, reference=charge.reference)
        return charge


def _take_time() -> None:
    gate = os.environ.get("ORDERS_GATE")
    if gate is None:
        time.sleep(random.uniform(*ANSWER_SECONDS))
        return
    give_up_at = time.monotonic() + GATE_TIMEOUT_SECONDS
    while not Path(gate).exists():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"the gate {gate} was never opened")
        time.sleep(0.02)


@dataclass(frozen=True)
class Question:
    """One call of the provider.

    Args:
        pid: the pool process that asked.
        asked_at: monotonic time.
        answered_at: None where the process was killed in between.
    """

    pid: int
    asked_at: float
    answered_at: float | None


@dataclass(frozen=True)
class OrderBooks:
    """The provider's books, by idempotency key."""

    questions: dict[str, list[Question]]

    @classmethod
    def read(cls, history: Path) -> OrderBooks:
        open_questions: dict[tuple[str, int], float] = {}
        questions: dict[str, list[Question]] = defaultdict(list)
        for line in history.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            place = (event["key"], event["pid"])
            if event["event"] == "asked":
                open_questions[place] = event["at"]
            elif event["event"] == "answered":
                asked_at = open_questions.pop(place)
                questions[event["key"]].append(Question(event["pid"], asked_at, event["at"]))
        for (key, pid), asked_at in open_questions.items():
            questions[key].append(Question(pid, asked_at, None))
        return cls(dict(questions))

    @property
    def asked(self) -> int:
        """How often the provider was asked, for all orders."""
        return sum(map(len, self.questions.values()))
