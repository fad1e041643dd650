"""Marked arguments are masked wherever they are shown, however they are passed."""

from __future__ import annotations

import pytest

from taskyard.masking import MASK
from taskyard.tasks.redaction import REPR_LIMIT, redact_arguments, representation


def charge(order_id, card_number, *, cvc=None):
    """A task that takes secrets."""


class Bound:
    def run(self, order_id, card_number, *, cvc=None):
        """The same, bound to its task."""


def collect(first, *values, **options):
    """A task that takes anything."""


def positional_only(order_id, card_number, /):
    """Names that cannot be given as keywords."""


def redact(run, marked, *args, **kwargs):
    return redact_arguments(args, kwargs, run=run, marked=marked)


def test_a_positional_argument_is_masked_by_its_name():
    assert redact(charge, ["card_number"], 7, "4111") == ([7, MASK], {})


def test_a_keyword_argument_is_masked():
    assert redact(charge, ["card_number", "cvc"], 7, card_number="4111", cvc=123) == (
        [7],
        {"card_number": MASK, "cvc": MASK},
    )


def test_the_self_of_a_bound_task_is_not_counted():
    assert redact(Bound().run, ["card_number"], 7, "4111") == ([7, MASK], {})


def test_everything_can_be_masked():
    assert redact(charge, ["*"], 7, "4111", cvc=1, other=2) == ([MASK, MASK], {"cvc": MASK, "other": MASK})


def test_without_marks_everything_is_shown():
    assert redact(charge, [], 7, "4111", cvc=1) == ([7, "4111"], {"cvc": 1})


def test_the_name_of_the_rest_masks_all_of_it():
    assert redact(collect, ["values"], 1, 2, 3, a=4) == ([1, MASK, MASK], {"a": 4})
    assert redact(collect, ["first"], 1, 2, 3) == ([MASK, 2, 3], {})


def test_the_name_of_the_options_masks_all_of_them_but_not_what_has_a_name():
    assert redact(collect, ["options"], a=4, b=5) == ([], {"a": MASK, "b": MASK})
    assert redact(collect, ["options"], first=1, a=4) == ([], {"first": 1, "a": MASK})


def test_one_option_can_be_masked():
    assert redact(collect, ["token"], 1, token="x", other=2) == ([1], {"token": MASK, "other": 2})


def test_positional_only_names_are_names_too():
    assert redact(positional_only, ["card_number"], 7, "4111") == ([7, MASK], {})


def test_arguments_that_the_task_does_not_take_are_masked():
    assert redact(charge, ["card_number"], 7, "4111", "4112") == ([7, MASK, MASK], {})


def test_the_originals_are_not_changed():
    args, kwargs = [7, "4111"], {"cvc": 1}

    redact_arguments(args, kwargs, run=charge, marked=["*"])

    assert (args, kwargs) == ([7, "4111"], {"cvc": 1})


class TestTasks:
    """The same through the task classes that Celery makes."""

    @pytest.fixture
    def tasks(self, memory_app):
        @memory_app.task(name="redaction.unbound", redact=("card_number",))
        def unbound(order_id, card_number): ...

        @memory_app.task(name="redaction.bound", bind=True, redact=("card_number",))
        def bound(self, order_id, card_number): ...

        @memory_app.task(
            name="redaction.retried", autoretry_for=(OSError,), bind=True, redact=("card_number",)
        )
        def retried(self, order_id, card_number): ...

        class ByClass(memory_app.Task):
            name = "redaction.by_class"
            redact = ("card_number",)

            def run(self, order_id, card_number): ...

        return [unbound, bound, retried, memory_app.register_task(ByClass())]

    def test_a_task_of_every_kind_shows_the_mask(self, tasks):
        for task in tasks:
            assert task.redacted((7, "4111"), {}) == ([7, MASK], {}), task.name
            assert task.redacted((7,), {"card_number": "4111"}) == ([7], {"card_number": MASK}), task.name

    def test_the_error_of_too_many_retries_shows_no_arguments(self, memory_app, recorded_failures):
        @memory_app.task(name="redaction.too_often", bind=True, redact=("card_number",), max_retries=0)
        def too_often(self, card_number):
            raise self.retry(max_retries=0)

        result = too_often.apply(("4111",), retries=1)

        assert isinstance(result.result, too_often.MaxRetriesExceededError)
        assert "4111" not in f"{result.result!r} {result.traceback} {recorded_failures}"
        assert len(recorded_failures) == 1


def test_representations_are_short():
    assert representation((1, "a")) == "(1, 'a')"
    assert len(representation(["x" * 5000])) == REPR_LIMIT
    assert representation(["x" * 5000]).endswith("...")


class TestCallsThatDoNotFit:
    """As after a deployment that has changed the signature."""

    @pytest.fixture
    def task(self, memory_app):
        @memory_app.task(name="redaction.changed", redact=("card_number",))
        def changed(order_id, card_number, note=""): ...

        return memory_app.tasks["redaction.changed"]

    @pytest.mark.parametrize(
        ("args", "kwargs"),
        [
            ((), {"order_id": 7, "card": "4111"}),
            (("4111",), {}),
            ((7, "4111", "note", "4112"), {}),
            ((7, "4111"), {"order_id": 7}),
        ],
    )
    def test_all_of_it_is_masked(self, task, args, kwargs):
        shown_args, shown_kwargs = task.redacted(args, kwargs)

        assert set(shown_args) | set(shown_kwargs.values()) == {MASK}

    def test_a_task_that_marks_nothing_shows_it(self, memory_app):
        @memory_app.task(name="redaction.open")
        def unmarked(order_id): ...

        assert unmarked.redacted((1, 2), {"x": 3}) == ([1, 2], {"x": 3})
