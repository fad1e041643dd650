"""The runs of a task so far travel in its message: what matters of them, and no more than it can carry."""

from __future__ import annotations

import base64
import json
import zlib
from types import SimpleNamespace

import pytest
from celery.exceptions import MaxRetriesExceededError, Reject, Retry

from taskyard import Fixed, Never, Snooze
from taskyard.marked_values import Scrubber
from taskyard.masking import MASK
from taskyard.tasks import failures
from taskyard.tasks.attempts import (
    ERROR_CHARACTERS,
    HEADER,
    MAX_BYTES,
    earlier_attempts,
    noted,
    pack,
    with_attempt,
)
from tests.support.runs import PartnerError, fail, raising, run

CARD = "4929-9999-0000-1111"


def raised(error):
    try:
        raise error
    except Exception as caught:
        return caught


def after(count, *, text="boom"):
    """The attempts of a task that has failed so many times."""
    attempts = []
    for number in range(count):
        attempts = with_attempt(attempts, raised(PartnerError(f"{text} {number + 1}")), worker="w1")
    return attempts


def sent(messages):
    """The attempts in the only message."""
    (message,) = messages
    return earlier_attempts(message.headers)


class TestOneAttempt:
    def test_it_says_when_where_and_why(self, clock):
        (attempt,) = with_attempt([], raised(PartnerError("boom")), worker="w1@host", clock=clock)

        assert attempt["number"] == 1
        assert attempt["at"] == clock.now().timestamp()
        assert (attempt["worker"], attempt["error"]) == ("w1@host", "PartnerError: boom")
        assert "in raised" in attempt["traceback"]
        assert attempt["traceback"].rstrip().endswith("PartnerError: boom")

    def test_an_error_without_a_traceback_has_none(self):
        (attempt,) = with_attempt([], PartnerError("killed"), worker=None)

        assert (attempt["traceback"], attempt["worker"]) == ("", "")

    def test_a_retry_that_the_task_asks_for_needs_no_error(self):
        (attempt,) = with_attempt([], None, worker="w")

        assert (attempt["error"], attempt["traceback"]) == ("retried by the task", "")

    def test_long_texts_are_cut_and_say_so(self):
        (attempt,) = with_attempt([], raised(PartnerError("x" * 1_000_000)), worker="w")

        assert len(attempt["error"]) == ERROR_CHARACTERS
        assert len(attempt["traceback"]) < 3_200
        assert "characters) ..." in attempt["traceback"]
        assert attempt["traceback"].startswith("Traceback")

    def test_marked_values_are_masked_before_anything_is_cut(self):
        error = raised(PartnerError("x" * (ERROR_CHARACTERS - len("PartnerError: ") - 4) + CARD))

        (attempt,) = with_attempt([], error, worker="w", scrubber=Scrubber(lambda: [CARD]))

        assert CARD[:4] not in json.dumps(attempt)


class TestMany:
    def test_the_first_two_and_the_last_eight_are_kept(self):
        attempts = after(150)

        assert [attempt["number"] for attempt in attempts] == [1, 2, *range(143, 151)]
        assert [attempt.get("left_out") for attempt in attempts] == [None, None, 140, *[None] * 7]

    @pytest.mark.parametrize("count", [1, 9, 10])
    def test_nothing_is_left_out_while_there_is_room(self, count):
        assert [attempt["number"] for attempt in after(count)] == list(range(1, count + 1))

    def test_they_stay_small(self):
        same = pack(after(150))
        different = pack(after(150, text="".join(map(chr, range(40, 120))) * 100))

        assert len(same) < 2_000
        assert len(different) < 8_000


class TestHeader:
    def test_it_is_read_as_it_was_written(self):
        attempts = after(3, text="ümläut\x00 and \ud800")

        assert earlier_attempts({HEADER: pack(attempts)}) == attempts

    @pytest.mark.parametrize(
        "header",
        [
            None,
            7,
            "",
            "no base64!",
            base64.b64encode(b"not packed").decode(),
            base64.b64encode(zlib.compress(b"not json")).decode(),
            base64.b64encode(zlib.compress(b'{"number": 1}')).decode(),
            base64.b64encode(zlib.compress(b'[{"number": "one"}]')).decode(),
            base64.b64encode(zlib.compress(b"[7]")).decode(),
            base64.b64encode(zlib.compress(b'[{"number": 1, "x": "' + b"x" * MAX_BYTES + b'"}]')).decode(),
            [{"number": 1}],
        ],
        ids=range(11),
    )
    def test_one_that_is_not_ours_counts_as_none(self, header):
        assert earlier_attempts({HEADER: header}) == []

    def test_a_message_without_headers_has_none(self):
        assert earlier_attempts(None) == earlier_attempts({}) == []


class TestNoted:
    def test_what_is_published_inside_carries_it(self):
        request = SimpleNamespace(headers={"tenant": "acme"}, hostname="w1")

        with noted(request, PartnerError("boom")):
            inside = request.headers

        assert inside["tenant"] == "acme"
        assert [attempt["error"] for attempt in earlier_attempts(inside)] == ["PartnerError: boom"]
        assert request.headers == {"tenant": "acme"}

    def test_a_request_without_headers_is_left_without(self):
        request = SimpleNamespace(headers=None, hostname="w1")

        with noted(request, None):
            inside = request.headers

        assert len(earlier_attempts(inside)) == 1
        assert request.headers is None


class TestRuns:
    """Through the layers of a run, to the message that is published and to the dead letter."""

    def test_a_retry_carries_the_run(self, declare, take_messages):
        with pytest.raises(Retry):
            run(declare(fail, retry=Fixed(seconds=1)))

        (attempt,) = sent(take_messages())
        assert (attempt["number"], attempt["error"]) == (1, "PartnerError: boom")
        assert "in fail" in attempt["traceback"]
        assert "tasks/run.py" not in attempt["traceback"]

    def test_a_retry_of_the_tasks_own_carries_the_run(self, memory_app, take_messages):
        @memory_app.task(name="attempts.own", bind=True)
        def own(self, **how):
            try:
                raise PartnerError("boom")
            except PartnerError as error:
                raise self.retry(countdown=1, **({"exc": error} if how else {})) from error

        for how in ({}, {"exc": True}):
            with pytest.raises(Retry):
                run(own, **how)

            assert [attempt["error"] for attempt in sent(take_messages())] == ["PartnerError: boom"]

    def test_a_success_and_a_snooze_add_none(self, declare, take_messages):
        with pytest.raises(Retry):
            run(declare(raising(Snooze(5))), headers={HEADER: pack(after(2))})

        assert [attempt["number"] for attempt in sent(take_messages())] == [1, 2]

    def test_a_dead_letter_has_them_all(self, declare, recorded_failures):
        with pytest.raises(PartnerError):
            run(declare(fail, retry=Never()), headers={HEADER: pack(after(2)), "tenant": "acme"}, retries=2)

        (failure,) = recorded_failures
        assert [attempt["number"] for attempt in failure.attempts] == [1, 2, 3]
        assert failure.attempts[2]["error"] == "PartnerError: boom"
        assert failure.headers == {"tenant": "acme"}

    def test_a_run_whose_store_is_away_is_one(self, declare, recorded_failures, take_messages):
        def refuse(failure):
            raise ConnectionError("the database is away")

        failures.set_sink(refuse)
        with pytest.raises(Retry):
            run(declare(fail, retry=Never()))

        assert [attempt["error"] for attempt in sent(take_messages())] == ["PartnerError: boom"]

    def test_a_retry_that_cannot_be_published_is_one_attempt_not_two(self, memory_app, recorded_failures):
        @memory_app.task(name="attempts.exhausted", bind=True, max_retries=0)
        def exhausted(self):
            raise self.retry(countdown=1)

        with pytest.raises(MaxRetriesExceededError):
            run(exhausted)

        (failure,) = recorded_failures
        assert [attempt["number"] for attempt in failure.attempts] == [1]

    def test_a_rejected_run_is_one(self, declare, recorded_failures):
        with pytest.raises(Reject):
            run(declare(raising(Reject("no", requeue=False))))

        assert len(recorded_failures[0].attempts) == 1

    def test_marked_values_are_in_none(self, memory_app, take_messages, recorded_failures):
        @memory_app.task(name="attempts.secret", redact=("card",), retry=Fixed(seconds=1, max_retries=1))
        def secret(card):
            raise PartnerError(f"declined {card}")

        with pytest.raises(Retry):
            run(secret, CARD)
        (message,) = take_messages()
        with pytest.raises(PartnerError):
            run(secret, CARD, headers=message.headers, retries=1)

        (failure,) = recorded_failures
        assert [attempt["error"] for attempt in failure.attempts] == [f"PartnerError: declined {MASK}"] * 2
        assert CARD not in json.dumps([*failure.attempts, *earlier_attempts(message.headers)])
