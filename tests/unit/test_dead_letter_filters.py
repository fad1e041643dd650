"""One filter for the admin, the command and bulk replays: it leaves what it says, no more and no less."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.models import DeadLetter
from taskyard.errors import DeadLetterError
from tests.support.letters import TASK, letter

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def rows(db):
    """Five letters that differ in one thing each, an hour apart."""
    made = {
        "plain": letter(),
        "queue": letter(task_id="id-2", queue="low", correlation_id="corr-2"),
        "task": letter(task_id="id-3", task_name="mail.send", correlation_id="corr-3", args=["needle"]),
        "reason": letter(task_id="id-4", reason="poison", correlation_id="corr-4", error="OSError: haystack"),
        "discarded": letter(task_id="id-5", correlation_id="corr-5", kwargs={"k": "Needle"}),
    }
    DeadLetter.objects.filter(pk=made["discarded"].pk).update(status="discarded")
    for place, row in enumerate(made.values()):
        DeadLetter.objects.filter(pk=row.pk).update(created_at=MOMENT + timedelta(hours=place))
    return made


def left(rows, **given):
    """Return the names of the rows that a filter leaves, read in whatever order."""
    letters, chosen = DeadLetter.objects.order_by("-pk"), DeadLetterFilter(**given)
    ids = set(chosen.apply(letters).values_list("pk", flat=True))
    assert set(chosen.apply(letters, newest_first=True).values_list("pk", flat=True)) == ids
    return {name for name, row in rows.items() if row.pk in ids}


OPEN = {"plain", "queue", "task", "reason"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, OPEN),
        ({"status": None}, {*OPEN, "discarded"}),
        ({"status": "discarded"}, {"discarded"}),
        ({"queue": "low"}, {"queue"}),
        ({"queue": ""}, set()),
        ({"task": "mail.send"}, {"task"}),
        ({"reason": "poison"}, {"reason"}),
        ({"since": MOMENT + timedelta(hours=2)}, {"task", "reason"}),
        ({"until": MOMENT + timedelta(hours=2)}, {"plain", "queue"}),
        ({"since": MOMENT + timedelta(hours=1), "until": MOMENT + timedelta(hours=2)}, {"queue"}),
        ({"until": MOMENT, "status": None}, set()),
        ({"search": "id-2"}, {"queue"}),
        ({"search": "corr-3"}, {"task"}),
        ({"search": "NEEDLE", "status": None}, {"task", "discarded"}),
        ({"search": "haystack"}, {"reason"}),
        ({"search": "mail.se"}, {"task"}),
        ({"search": "nowhere"}, set()),
        ({"ids": ()}, set()),
        ({"queue": "high", "reason": "retries_exhausted", "task": TASK}, {"plain"}),
    ],
    ids=str,
)
def test_it_leaves_what_it_says(rows, given, expected):
    assert left(rows, **given) == expected


def test_by_ids_and_fingerprint(rows):
    assert left(rows, ids=[rows["plain"].pk, rows["task"].pk]) == {"plain", "task"}
    assert left(rows, fingerprint=rows["reason"].fingerprint) == {"reason"}


def test_an_id_that_is_found_is_all_that_counts(rows):
    """A part of a text is looked for only where no letter has the id: that reads every row."""
    letter(task_id="id-6", error="see id-2", correlation_id="corr-6")

    assert left(rows, search="id-2") == {"queue"}


def test_until_is_right_also_where_ids_and_times_are_in_another_order(rows):
    """Hosts' clocks differ: a later id may have an earlier time."""
    DeadLetter.objects.filter(pk=rows["reason"].pk).update(created_at=MOMENT - timedelta(hours=1))

    assert left(rows, until=MOMENT + timedelta(minutes=1)) == {"plain", "reason"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reason": "poisson"}, r"reason='poisson', which does not exist. Did you mean 'poison'\?"),
        ({"status": "opened"}, r"status='opened', which does not exist. Did you mean 'open'\?"),
        ({"since": "yesterday"}, "since='yesterday', which is no moment"),
        ({"until": datetime(2026, 3, 1)}, "which is no moment. Give a date and time with a zone"),  # noqa: DTZ001
    ],
)
def test_what_no_letter_can_have_is_refused(given, message):
    with pytest.raises(DeadLetterError, match=message):
        DeadLetterFilter(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"queues": "low"}, r"'queues' is not a filter of dead letters. Did you mean 'queue'\?"),
        ({"since": "last week"}, "since='last week', which is no moment. Write it as in 2026-03-01T12:00"),
        ({"ids": "abc"}, "ids='abc'. Give a list of numbers"),
    ],
)
def test_a_dict_that_is_none_is_refused(given, message):
    with pytest.raises(DeadLetterError, match=message):
        DeadLetterFilter.from_dict(given)


moments = st.none() | st.datetimes(timezones=st.just(UTC))
texts = st.none() | st.text(max_size=10)


@given(
    st.builds(
        DeadLetterFilter,
        queue=texts,
        task=texts,
        reason=st.none() | st.sampled_from(DeadLetter.Reason.values),
        status=st.none() | st.sampled_from(DeadLetter.Status.values),
        since=moments,
        until=moments,
        search=texts,
        ids=st.none() | st.lists(st.integers(1, 100)),
    )
)
def test_a_filter_comes_back_from_its_dict(chosen):
    assert DeadLetterFilter.from_dict(chosen.as_dict()) == chosen
