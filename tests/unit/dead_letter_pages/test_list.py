"""The list of letters: what, where, why, when; filters; never the whole table."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from taskyard.deadletters.admin.listing import COUNT_CAP, PER_PAGE, SEARCH_CAP, written_count
from taskyard.deadletters.models import DeadLetter
from tests.unit.dead_letter_pages.conftest import address, text_of

LIST = "deadletter_changelist"


def listed(client, **query):
    """Return the ids of the letters on the page, in order."""
    response = client.get(address(LIST), query)
    assert response.status_code == 200
    return [letter.pk for letter in response.context["letters"]]


def test_a_row_says_when_what_where_why_and_how_often(reader, make_letter):
    letter = make_letter(
        retries=2,
        error="CardDeclined: no money\nsecond line",
        created_at=timezone.now() - timedelta(minutes=5),
    )

    text = text_of(reader.get(address(LIST)))

    row = (
        f"{letter.created_at:%Y-%m-%d %H:%M:%S} 5 min ago shop.place_order high retries exhausted "
        "CardDeclined: no money 3 open"
    )
    assert row in text
    assert "When (UTC)" in text
    assert "1 open letter" in text
    assert "second line" not in text


def test_open_letters_are_what_is_seen_first_the_newest_on_top(reader, make_letter):
    first = make_letter()
    replayed, discarded = make_letter(status="replayed"), make_letter(status="discarded")
    last = make_letter()

    assert listed(reader) == [last.pk, first.pk]
    assert listed(reader, status="all") == [last.pk, discarded.pk, replayed.pk, first.pk]
    assert listed(reader, status="discarded") == [discarded.pk]


@pytest.mark.parametrize(
    "query",
    [
        {"queue": "critical"},
        {"task": "shop.ship"},
        {"reason": "time_limit"},
        {"within": "3600"},
        {"search": "needle"},
        {"search": "SKU-17"},
        {"search": "shop.sh"},
        {"queue": "critical", "task": "shop.ship", "reason": "time_limit", "search": "needle"},
    ],
    ids=str,
)
def test_a_filter_leaves_what_it_names(reader, make_letter, query):
    make_letter(created_at=timezone.now() - timedelta(hours=2))
    wanted = make_letter(
        queue="critical",
        task_name="shop.ship",
        reason="time_limit",
        error="a needle",
        kwargs={"sku": "SKU-17"},
    )

    assert listed(reader, **query) == [wanted.pk]


def test_a_fault_and_a_time_can_be_named_exactly(reader, make_letter):
    old = make_letter(created_at="2026-03-01T11:59:59+00:00")
    wanted = make_letter(created_at="2026-03-01T12:00:00+00:00")
    make_letter(error_place="elsewhere", created_at="2026-03-01T12:00:00+00:00")
    make_letter(created_at="2026-03-01T13:00:00+00:00")

    times = {"since": "2026-03-01T12:00", "until": "2026-03-01T13:00"}

    assert listed(reader, fingerprint=wanted.fingerprint, **times) == [wanted.pk]
    assert listed(reader, fingerprint=wanted.fingerprint[:8], **times) == [wanted.pk]
    assert listed(reader, until="2026-03-01T13:00:00+01:00") == [old.pk]


@pytest.mark.parametrize("field", ["task_id", "correlation_id", "replay_task_id"])
def test_an_id_is_found_whatever_else_is_in_the_filter(reader, make_letter, field):
    letter = make_letter(status="replayed")
    DeadLetter.objects.filter(pk=letter.pk).update(replay_task_id="again-1")
    letter.refresh_from_db()
    make_letter()

    response = reader.get(address(LIST), {"search": str(getattr(letter, field)), "status": "open"})

    assert [found.pk for found in response.context["letters"]] == [letter.pk]
    assert f"Found by the id {getattr(letter, field)}, whatever else is in the filter." in text_of(response)
    assert "Replay all" not in text_of(response)


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ({"reason": "boredom"}, "Select a valid choice."),
        ({"fingerprint": "abcdef"}, "No fault has a fingerprint that begins with 'abcdef'."),
        ({"fingerprint": "abc"}, "Give its 16 hex digits, or at least the first 6."),
        ({"status": "closed"}, "Select a valid choice."),
        ({"since": "yesterday"}, "Write it as in 2026-03-01T12:00."),
        ({"within": "1e9"}, "Select a valid choice."),
    ],
    ids=str,
)
def test_a_wrong_filter_says_so_and_finds_nothing(reader, letter, query, complaint):
    response = reader.get(address(LIST), query)

    text = text_of(response)
    assert complaint in text
    assert "The filter is wrong" in text
    assert response.context["letters"] == []


def test_a_queue_that_is_no_longer_configured_can_be_filtered(reader, make_letter):
    wanted = make_letter(queue="gone")
    make_letter()

    assert listed(reader, queue="gone") == [wanted.pk]


def test_no_letter_is_good_news(reader):
    assert "No open dead letters. Nothing to do." in text_of(reader.get(address(LIST)))
    assert "No letter matches the filter." in text_of(reader.get(address(LIST), {"queue": "bulk"}))


def test_pages_go_back_in_time_without_a_gap(reader, db):
    make_rows(PER_PAGE + 3, error="e")
    everything = sorted(DeadLetter.objects.values_list("pk", flat=True), reverse=True)

    first = reader.get(address(LIST), {"queue": "high"})
    second = reader.get(address(LIST) + first.context["older_url"])

    assert [letter.pk for letter in first.context["letters"]] == everything[:PER_PAGE]
    assert [letter.pk for letter in second.context["letters"]] == everything[PER_PAGE:]
    assert second.context["older_url"] == ""
    assert "Newest" in text_of(second)
    assert [x.pk for x in reader.get(address(LIST) + second.context["newest_url"]).context["letters"]] == (
        everything[:PER_PAGE]
    )


def test_a_text_is_looked_for_in_a_bounded_number_of_rows_and_the_page_says_so(reader, db):
    make_rows(1, error="a needle")
    make_rows(SEARCH_CAP, error="hay")

    response = reader.get(address(LIST), {"search": "needle"})

    assert response.context["letters"] == []
    assert f"looked for in the newest {SEARCH_CAP:,} letters only" in text_of(response)
    assert len(listed(reader, search="needle", until=timezone.now().isoformat())) == 0
    assert len(listed(reader, search="needle", task="shop.other")) == 0


def test_a_page_takes_few_queries_and_reads_no_traceback(reader, db, django_assert_max_num_queries):
    make_rows(PER_PAGE, error="e" * 1000, traceback="t" * 1000)

    with django_assert_max_num_queries(6) as queries:
        response = reader.get(address(LIST))

    assert response.status_code == 200
    statements = [query["sql"] for query in queries if "deadletters_deadletter" in query["sql"]]
    assert statements
    for column in ("traceback", "attempts", "sealed", '"kwargs"'):
        assert not [sql for sql in statements if column in sql]


@pytest.mark.parametrize(
    ("count", "written"),
    [
        (1, "1 letter"),
        (2, "2 letters"),
        (COUNT_CAP, "10,000 letters"),
        (COUNT_CAP + 1, "more than 10,000 letters"),
    ],
)
def test_counts_end_where_nobody_counts_any_more(count, written):
    assert written_count(count, "letter", "letters") == written


def test_what_a_task_says_is_text_and_no_markup(reader, make_letter):
    make_letter(task_name="<b>bold</b>", error="<script>alert(1)</script>", queue='"><i>')

    page = reader.get(address(LIST)).content.decode()

    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<b>bold" not in page
    assert '"><i>' not in page


def test_nothing_is_added_or_deleted_by_hand(anna, letter):
    assert anna.get(address("deadletter_add")).status_code == 403
    assert anna.get(address("deadletter_delete", letter.pk)).status_code == 403
    assert anna.post(address("deadletter_change", letter.pk), {"status": "replayed"}).status_code == 405


def make_rows(count, **columns):
    values = {"task_name": "shop.place_order", "queue": "high", "reason": "poison"} | columns
    DeadLetter.objects.bulk_create([DeadLetter(**values) for _ in range(count)], batch_size=1000)
