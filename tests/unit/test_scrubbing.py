"""What leaves the run of a task that marks arguments shows none of them: decisions are made on the truth."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import traceback

import pytest
from celery.exceptions import Reject, Retry

from taskyard import Cancel, Fixed, Never, Snooze
from taskyard.errors import OutOfMemoryError, RedactedError
from taskyard.marked_values import active_scrubber
from taskyard.masking import MASK
from taskyard.tasks import failures
from tests.support.runs import do_nothing, run

pytestmark = pytest.mark.usefixtures("recorded_failures")
CARD = "4929-9999-0000-1111"


class DeclinedError(Exception):
    """Says which card it was."""


class ComputedError(Exception):
    """Cannot be masked in its place."""

    def __init__(self, card):
        self.say = lambda: f"computed {card}"
        super().__init__()

    def __str__(self):
        return self.say()


@pytest.fixture
def charge(memory_app):
    """Declare a task that does this with its card."""

    def declare(act, **options):
        @memory_app.task(name="scrub.charge", bind=True, redact=("card",), **options)
        def charge(self, order, card):
            return act(card)

        return memory_app.tasks["scrub.charge"]

    return declare


def raising(make):
    def act(card):
        raise make(card)

    return act


def texts(error):
    return f"{error!r} {''.join(traceback.format_exception(error))}"


class TestErrors:
    @pytest.mark.parametrize("make", [DeclinedError, ComputedError, lambda card: ValueError({"card": card})])
    def test_the_error_the_dead_letter_and_the_log_show_a_mask(self, charge, recorded_failures, events, make):
        with pytest.raises((DeclinedError, RedactedError, ValueError)) as raised:
            run(charge(raising(make), retry=Never()), 7, CARD)

        (failure,) = recorded_failures
        shown = [texts(raised.value), failure.error, failure.traceback, json.dumps(failure.attempts)]
        shown += [str(line) for line in events()]
        shown += [
            "".join(traceback.format_exception(*line["exc_info"])) for line in events() if "exc_info" in line
        ]
        assert all(CARD not in text for text in shown)
        assert MASK in failure.error

    def test_the_type_is_that_of_the_true_error(self, charge, recorded_failures):
        with pytest.raises(RedactedError):
            run(charge(raising(ComputedError), retry=Never()), 7, CARD)

        (failure,) = recorded_failures
        assert failure.error_type == f"{__name__}.ComputedError"
        assert failure.error_place.endswith(" in act")
        assert failure.error == f"ComputedError: computed {MASK}"

    @pytest.mark.parametrize("make", [DeclinedError, ComputedError])
    @pytest.mark.parametrize(("on", "is_retried"), [("same", True), ("other", False)])
    def test_the_policy_decides_on_the_true_error(self, charge, make, on, is_retried):
        policy = Fixed(seconds=1, on=(make,) if on == "same" else (OSError,))
        expected = Retry if is_retried else (DeclinedError, RedactedError)

        with pytest.raises(expected) as raised:
            run(charge(raising(make), retry=policy), 7, CARD)

        assert CARD not in texts(raised.value)

    def test_what_the_error_asks_for_is_heard(self, charge):
        def make(card):
            error = ComputedError(card)
            error.retry_after = 300
            return error

        with pytest.raises(Retry) as raised:
            run(charge(raising(make), retry=Fixed(seconds=1)), 7, CARD)

        assert raised.value.when == 300

    def test_running_out_of_memory_shows_a_mask(self, charge, recorded_failures):
        with pytest.raises(OutOfMemoryError) as raised:
            run(charge(raising(lambda card: MemoryError(f"for {card}")), retry=Never()), 7, CARD)

        assert CARD not in texts(raised.value)
        assert recorded_failures[0].error == f"MemoryError: for {MASK}"

    def test_an_exit_shows_a_mask(self, charge):
        with pytest.raises(SystemExit) as raised:
            run(charge(raising(lambda card: SystemExit(f"no {card}"))), 7, CARD)

        assert raised.value.code == f"no {MASK}"

    @pytest.mark.parametrize(
        "make",
        [lambda card: Snooze(5, card), lambda card: Cancel(card), lambda card: Reject(card, requeue=True)],
    )
    def test_reasons_show_a_mask(self, charge, events, make):
        with pytest.raises(Exception) as raised:
            run(charge(raising(make)), 7, CARD)

        assert CARD not in texts(raised.value)
        assert CARD not in str(events())

    def test_what_was_caught_before_is_masked_too(self, charge, recorded_failures):
        def act(card):
            try:
                raise DeclinedError(card)
            except DeclinedError:
                raise RuntimeError("cannot charge")  # noqa: B904 - the context is meant

        with pytest.raises(RuntimeError):
            run(charge(act, retry=Never()), 7, CARD)

        assert "DeclinedError" in recorded_failures[0].traceback
        assert CARD not in recorded_failures[0].traceback

    def test_a_retry_of_the_tasks_own_publishes_the_truth_and_shows_a_mask(
        self, memory_app, take_messages, events
    ):
        @memory_app.task(name="scrub.retry", bind=True, redact=("card",))
        def retry(self, card):
            raise self.retry(exc=DeclinedError(card), countdown=1)

        with pytest.raises(Retry) as raised:
            run(retry, CARD)

        (message,) = take_messages()
        assert message.payload[0] == [CARD]
        assert CARD not in json.dumps(message.headers)
        assert CARD not in texts(raised.value)
        assert CARD not in str(events())

    def test_a_task_called_for_each_of_a_list_shows_a_mask(self, charge, memory_app, recorded_failures):
        task = charge(raising(DeclinedError), retry=Never())
        starmap = task.starmap([[7, CARD]])

        with pytest.raises(DeclinedError) as raised:
            run(
                memory_app.tasks["celery.starmap"],
                dict(starmap.kwargs["task"]),
                starmap.kwargs["it"],
                retries=99,
            )

        assert CARD not in texts(raised.value)
        assert CARD not in repr(recorded_failures)

    def test_source_lines_are_masked_where_the_dead_letter_is_made(self, charge, recorded_failures):
        def act(card):
            raise DeclinedError("4929-9999-0000-1111 is in this line, too")

        with pytest.raises(DeclinedError):
            run(charge(act, retry=Never()), 7, CARD)

        assert CARD not in recorded_failures[0].traceback


class TestOtherTasks:
    def test_a_task_that_marks_nothing_has_no_such_layer(self, declare):
        assert "scrub_errors" not in [layer.__name__ for layer in declare(do_nothing).run_layers]

    def test_a_task_that_marks_has_it_next_to_what_decides(self, charge):
        names = [layer.__name__ for layer in charge(lambda card: None).run_layers]

        assert names[names.index("settle_outcome") + 1] == "scrub_errors"

    def test_during_the_run_there_is_something_that_hides_and_after_it_there_is_not(self, charge):
        inside = run(charge(lambda card: active_scrubber().text(f"card {card}")), 7, CARD)

        assert inside == f"card {MASK}"
        assert active_scrubber() is None


class TestWithoutAStore:
    def test_the_log_line_keeps_the_truth_encrypted(self, charge, caplog):
        from taskyard.conf import get_settings
        from taskyard.sealing import unseal

        failures.set_sink(None)
        caplog.set_level(logging.INFO)
        with pytest.raises(DeclinedError):
            run(charge(raising(DeclinedError), retry=Never()), 7, CARD)

        (line,) = [r.msg for r in caplog.records if r.name == "taskyard.dead_letter"]
        assert CARD not in str(line)
        assert json.loads(line["args"]) == [7, MASK]
        assert unseal(line["sealed"], get_settings())[0] == [7, CARD]


SCRIPT = """
import logging, sys
import structlog
from taskyard.conf import build_settings
from taskyard.marked_values import Scrubber, scrubbing
from taskyard.observe.logging import configure_logging

configure_logging(build_settings({"LOG_FORMAT": sys.argv[1], "LOG_LEVEL": "INFO"}))
ours = structlog.stdlib.get_logger("shop.own")
other = logging.getLogger("shop.orders")
card = sys.argv[2]

class Holder:
    def __str__(self):
        return f"holder of {card}"

def write():
    with structlog.contextvars.bound_contextvars(customer=card):
        ours.warning(f"card {card}", card=card, nested={"a": [card]}, holder=Holder(), number=7)
    other.warning("card %s of %s", card, {"holder": card})
    other.warning("with extra", extra={"card": card})
    try:
        raise ValueError(f"no {card}") from KeyError(card)
    except ValueError:
        ours.exception("it failed")
        other.exception("it failed %s", card)

with scrubbing(Scrubber(lambda: [card])):
    write()
ours.info("outside", text="x4929x")
"""


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_log_lines_of_the_run_show_a_mask(log_format):
    # in a process of its own: logging is global
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, log_format, CARD],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert CARD not in done.stderr
    assert done.stderr.count(MASK) >= 10
    for kept in ("with extra", "it failed", "ValueError", "KeyError", "holder of", "x4929x", "number"):
        assert kept in done.stderr
