"""The faults page: an incident is one line."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from taskyard.deadletters.admin.listing import SEARCH_CAP
from taskyard.deadletters.models import DeadLetter
from tests.unit.dead_letter_pages.conftest import address, text_of


def faults(client, **query):
    response = client.get(address("deadletter_faults"), query)
    assert response.status_code == 200
    return response


def test_letters_of_one_fault_are_one_line_the_most_frequent_first(reader, make_letter):
    make_letter(task_name="shop.ship", error="Timeout: <slow>", error_type="Timeout", queue="low")
    for number in range(3):
        make_letter(error=f"CardDeclined: {number}", queue="high" if number else "critical")

    response = faults(reader)

    first, second = response.context["faults"]
    assert [(row["count"], row["task_name"]) for row in (first, second)] == [
        (3, "shop.place_order"),
        (1, "shop.ship"),
    ]
    text = text_of(response)
    assert "2 faults" in text
    assert "3 shop.place_order retries exhausted shop.errors.CardDeclined at shop/cards.py:10 in" in text
    assert "CardDeclined: 2" in text
    assert "critical, high" in text
    assert "Timeout: <slow>" in text


def test_a_line_leads_to_its_letters_and_their_actions(anna, make_letter):
    wanted = [make_letter() for _ in range(2)]
    make_letter(task_name="shop.ship")

    (row, _) = faults(anna).context["faults"]
    letters = anna.get(row["letters_url"]).context["letters"]
    replay = anna.get(f"{address('deadletter_replay_all')}?{row['query']}")
    discard = anna.get(f"{address('deadletter_discard_all')}?{row['query']}")

    assert {letter.pk for letter in letters} == {letter.pk for letter in wanted}
    assert "2 open letters: fault" in text_of(replay)
    assert "(shop.place_order, CardDeclined)" in text_of(replay)
    assert "2 open letters: fault" in text_of(discard)


def test_the_filter_leaves_the_faults_of_its_letters(reader, make_letter):
    make_letter(queue="low", created_at=timezone.now() - timedelta(days=2))
    make_letter(task_name="shop.ship", queue="high")

    assert [row["task_name"] for row in faults(reader, queue="high").context["faults"]] == ["shop.ship"]
    assert [row["task_name"] for row in faults(reader, within="3600").context["faults"]] == ["shop.ship"]
    assert faults(reader, reason="poison").context["faults"] == []
    assert "No fault matches the filter." in text_of(faults(reader, reason="poison"))
    assert "Select a valid choice." in text_of(faults(reader, reason="boredom"))


def test_faults_that_are_not_open_offer_no_action(anna, make_letter):
    make_letter(status="discarded")

    assert "Replay all" in text_of(faults(anna, status="open")) or faults(anna).context["faults"] == []
    assert "Replay all" not in text_of(faults(anna, status="discarded"))


def test_a_text_is_looked_for_in_a_bounded_number_of_rows_and_the_page_says_so(reader, make_letter):
    old = make_letter(error="a needle", created_at=timezone.now() - timedelta(days=1))
    DeadLetter.objects.bulk_create(
        [DeadLetter(task_name="shop.ship", reason="poison", error="hay") for _ in range(SEARCH_CAP + 1)]
    )

    response = faults(reader, search="needle")

    assert response.context["faults"] == []
    assert f"looked for in the newest {SEARCH_CAP:,} letters only" in text_of(response)
    assert faults(reader, search="needle", until=old.created_at + timedelta(hours=1)).context["faults"]
