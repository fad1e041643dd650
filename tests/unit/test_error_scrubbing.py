"""Errors keep their type, their traceback and their causes, and show no marked value."""

from __future__ import annotations

import json
import pickle
import traceback
from dataclasses import dataclass

import pytest
from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded
from celery.utils.serialization import get_pickleable_exception
from pydantic import BaseModel, ValidationError

from taskyard import Cancel, Snooze
from taskyard.errors import RedactedError
from taskyard.marked_values import Scrubber
from taskyard.masking import MASK
from taskyard.tasks.error_scrubbing import MAX_DEPTH, scrubbed_error
from taskyard.tasks.scrubbing import true_error

CARD = "4929-9999-0000-1111"
AMOUNT = 123456


def clean(error):
    return scrubbed_error(error, Scrubber(lambda: [CARD, AMOUNT]))


def shown(error):
    """Everything that a log, an event or a result store makes of an error."""
    carried = get_pickleable_exception(error)
    return "\n".join(
        [
            str(error),
            repr(error),
            *traceback.format_exception(error),
            repr(error.args),
            repr(carried),
            str(carried),
            *traceback.format_exception(pickle.loads(pickle.dumps(carried))),
        ]
    )


def caught(raise_it):
    try:
        raise_it()
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


class DeclinedError(Exception):
    """Keeps what it is about in attributes."""

    def __init__(self, card, *, code):
        self.card, self.code = card, code
        super().__init__(f"card {card} declined")


class ComputedError(Exception):
    """Makes its text of what is not reachable as data."""

    def __init__(self, card):
        self.holder = lambda: card
        super().__init__()

    def __str__(self):
        return f"computed of {self.holder()}"


class SlottedError(Exception):
    __slots__ = ("card",)

    def __init__(self, card):
        super().__init__("slotted")
        self.card = card

    def __str__(self):
        return f"slotted {self.card}"


@dataclass(frozen=True)
class FrozenError(Exception):
    card: str


class Holder:
    """An object whose text shows what it holds."""

    def __init__(self, card):
        self.card = card

    def __repr__(self):
        return f"Holder({self.card})"


class Card(BaseModel):
    number: int


ERRORS = {
    "text": lambda: ValueError(f"card {CARD} refused"),
    "number": lambda: ValueError(AMOUNT),
    "several arguments": lambda: RuntimeError("refused", {"card": [CARD]}, (AMOUNT, b"x" + CARD.encode())),
    "key": lambda: KeyError(CARD),
    "object as argument": lambda: ValueError(Holder(CARD)),
    "exception as argument": lambda: ConnectionError(ValueError(f"no route for {CARD}")),
    "attributes": lambda: DeclinedError(CARD, code=7),
    "slots": lambda: SlottedError(CARD),
    "frozen": lambda: FrozenError(CARD),
    "file": lambda: FileNotFoundError(2, f"no {CARD}", f"/cards/{CARD}", None, f"/to/{CARD}"),
    "unicode": lambda: caught(lambda: f"\udcff{CARD}".encode()),
    "json": lambda: caught(lambda: json.loads(f'{{"card": "{CARD}" x')),
    "syntax": lambda: caught(lambda: compile(f"card = '{CARD}' '", "x.py", "exec")),
    "attribute": lambda: caught(lambda: getattr(Holder(CARD), CARD)),
    "exit": lambda: SystemExit(f"no card {CARD}"),
    "memory": lambda: MemoryError(f"no room for {CARD}"),
    "interrupt": lambda: KeyboardInterrupt(CARD),
}


@pytest.mark.parametrize("make", ERRORS.values(), ids=ERRORS)
def test_an_error_shows_a_mask_and_keeps_its_type(make):
    error = caught(lambda: raise_(make()))
    before = error.__traceback__

    cleaned = clean(error)

    assert cleaned is error
    assert cleaned.__traceback__ is before
    assert CARD not in shown(cleaned)
    assert str(AMOUNT) not in shown(cleaned)


def raise_(error):
    raise error


@pytest.mark.parametrize("make", [ERRORS["text"], ERRORS["attributes"], ERRORS["file"], ERRORS["key"]])
def test_the_mask_stands_in_the_place_of_the_value(make):
    assert MASK in str(clean(make()))


def test_what_shows_nothing_stays_as_it_is():
    error = DeclinedError("none", code=7)
    error.response = Holder(CARD)
    error.retry_after = AMOUNT
    args, state = error.args, dict(vars(error))

    assert clean(error) is error
    assert error.args is args
    assert vars(error) == state


class TestCauses:
    def test_causes_and_contexts_are_masked_at_any_depth(self):
        def fail():
            try:
                try:
                    raise KeyError(CARD)
                except KeyError:
                    raise ValueError(f"inner {CARD}")  # noqa: B904 - the context is meant
            except ValueError as error:
                raise RuntimeError("outer") from error

        cleaned = clean(caught(fail))

        assert CARD not in shown(cleaned)
        assert isinstance(cleaned.__cause__, ValueError)
        assert isinstance(cleaned.__cause__.__context__, KeyError)
        assert cleaned.__suppress_context__

    def test_a_hidden_context_stays_hidden_and_is_masked_all_the_same(self):
        def fail():
            try:
                raise KeyError(CARD)
            except KeyError:
                raise ValueError("shown") from None

        cleaned = clean(caught(fail))

        assert "KeyError" not in "".join(traceback.format_exception(cleaned))
        assert CARD not in repr(cleaned.__context__)

    def test_a_context_that_is_not_hidden_stays_shown(self):
        def fail():
            try:
                raise KeyError("x")
            except KeyError:
                raise ValueError("shown")  # noqa: B904 - the context is meant

        assert "KeyError" in "".join(traceback.format_exception(clean(caught(fail))))

    def test_a_very_long_chain_is_cut_before_anything_shows(self):
        error = ValueError(CARD)
        for number in range(3 * MAX_DEPTH):
            following = ValueError(f"{number} {CARD}")
            following.__context__ = error
            error = following

        assert CARD not in "".join(traceback.format_exception(clean(error)))

    def test_errors_that_hang_on_each_other_are_no_endless_loop(self):
        one, other = ValueError(CARD), ValueError(CARD)
        one.__cause__, other.__cause__ = other, one
        one.args = (one, CARD)

        cleaned = clean(one)

        assert cleaned.args[1] == MASK
        assert cleaned.__cause__.args == (MASK,)

    def test_notes_are_masked(self):
        error = ValueError("x")
        error.add_note(f"while charging {CARD}")

        assert clean(error).__notes__ == [f"while charging {MASK}"]


class TestGroups:
    def test_members_and_message_are_masked(self):
        group = ExceptionGroup(f"for {CARD}", [ValueError(CARD), ExceptionGroup("deep", [KeyError(CARD)])])
        group.add_note(f"note {CARD}")
        error = caught(lambda: raise_(group))

        cleaned = clean(error)

        assert CARD not in shown(cleaned)
        assert cleaned.message == f"for {MASK}"
        assert isinstance(cleaned, ExceptionGroup)
        assert cleaned.split(KeyError)[0] is not None
        assert cleaned.__traceback__ is error.__traceback__

    def test_a_member_that_must_be_replaced_is(self):
        cleaned = clean(ExceptionGroup("several", [ComputedError(CARD), ValueError("plain")]))

        assert CARD not in shown(cleaned)
        assert [type(member) for member in cleaned.exceptions] == [RedactedError, ValueError]

    def test_a_group_of_other_kinds_of_errors_stays_one(self):
        cleaned = clean(BaseExceptionGroup("several", [KeyboardInterrupt(), ComputedError(CARD)]))

        assert type(cleaned) is BaseExceptionGroup
        assert CARD not in shown(cleaned)


class TestStandIn:
    def test_an_error_whose_text_cannot_be_changed_is_replaced(self):
        error = caught(lambda: raise_(ComputedError(CARD)))
        error.add_note(f"note {CARD}")

        cleaned = clean(error)

        assert isinstance(cleaned, RedactedError)
        assert str(cleaned) == f"ComputedError: computed of {MASK}"
        assert cleaned.__notes__ == [f"note {MASK}"]
        assert cleaned.__traceback__ is error.__traceback__
        assert cleaned.type_name == f"{__name__}.ComputedError"
        assert true_error(cleaned) is error
        assert CARD not in shown(cleaned)

    def test_an_error_of_a_library_in_c_too(self):
        cleaned = clean(caught(lambda: Card(number=CARD)))

        assert isinstance(true_error(cleaned), ValidationError)
        assert "Input should be a valid integer" in str(cleaned)
        assert CARD not in shown(cleaned)

    def test_the_true_error_does_not_travel(self):
        carried = pickle.loads(pickle.dumps(clean(ComputedError(CARD))))

        assert str(carried) == f"ComputedError: computed of {MASK}"
        assert carried.original is None
        assert carried.type_name == f"{__name__}.ComputedError"

    @pytest.mark.parametrize("kind", [MemoryError, SoftTimeLimitExceeded, RecursionError, RuntimeError])
    def test_an_error_that_cannot_be_looked_at_shows_nothing(self, kind):
        class HostileError(Exception):
            @property
            def args(self):
                raise kind

        cleaned = clean(HostileError(CARD))

        assert str(cleaned) == "HostileError: (its text is not shown)"
        assert CARD not in shown(cleaned)


class TestWhatIsNoError:
    def test_a_retry_keeps_what_it_publishes(self):
        signature = {"args": [CARD]}
        error = Retry(exc=ValueError(CARD), when=9, sig=signature)

        cleaned = clean(error)

        assert cleaned is error
        assert cleaned.sig is signature
        assert signature == {"args": [CARD]}
        assert cleaned.when == 9
        assert CARD not in f"{cleaned} {cleaned!r} {cleaned.exc!r} {cleaned.excs}"

    def test_a_retry_shows_the_stand_in_of_its_error(self):
        cleaned = clean(Retry(exc=ComputedError(CARD), when=1))

        assert CARD not in f"{cleaned} {cleaned.exc!r} {cleaned.exc} {cleaned.excs}"

    @pytest.mark.parametrize("requeue", [True, False])
    def test_a_reject_keeps_what_it_asks_for(self, requeue):
        for reason in (CARD, ValueError(CARD), ComputedError(CARD)):
            cleaned = clean(Reject(reason, requeue=requeue))

            assert isinstance(cleaned, Reject)
            assert cleaned.requeue is requeue
            assert CARD not in f"{cleaned} {cleaned!r} {cleaned.reason}"

    def test_snoozes_and_cancels_keep_what_they_ask_for(self):
        snooze, cancel, ignore = clean(Snooze(AMOUNT, CARD)), clean(Cancel(CARD)), clean(Ignore(CARD))

        assert (snooze.delay_seconds, snooze.reason) == (AMOUNT, MASK)
        assert cancel.reason == MASK
        assert CARD not in f"{snooze} {cancel} {ignore}"

    @pytest.mark.parametrize(
        ("kind", "arguments"),
        [
            (Retry, {"when": 9}),
            (Reject, {"reason": "x", "requeue": True}),
            (Ignore, {}),
            (Snooze, {"delay": 9}),
            (Cancel, {}),
            (SystemExit, {}),
            (KeyboardInterrupt, {}),
        ],
    )
    def test_one_that_must_be_replaced_is_of_the_same_kind(self, kind, arguments):
        class Subclass(kind):
            def __str__(self):
                return CARD

        cleaned = clean(Subclass(**arguments))

        assert isinstance(cleaned, kind if kind is not KeyboardInterrupt else SystemExit)
        assert CARD not in f"{cleaned} {cleaned!r}"
        for name in ("when", "requeue", "delay_seconds"):
            assert getattr(cleaned, name, None) == getattr(Subclass(**arguments), name, None)
