"""Discard with a reason, and open again."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from taskyard.deadletters.models import DeadLetter
from tests.unit.dead_letter_pages.conftest import address, messages_of, text_of


def test_one_letter_is_discarded_with_its_reason(anna, letter):
    url = address("deadletter_discard", letter.pk)

    asked = anna.get(url)
    done = anna.post(url, {"confirmed": "yes", "reason": "a test order"}, follow=True)

    letter.refresh_from_db()
    assert "shop.place_order failed once and was given up" in text_of(asked)
    assert messages_of(done) == ["Discarded 1 letter."]
    assert (letter.status, letter.resolved_by, letter.discard_reason) == ("discarded", "anna", "a test order")
    assert [(a.kind, a.actor, a.detail) for a in letter.actions.all()] == [
        ("discard", "anna", {"reason": "a test order"})
    ]


def test_without_a_reason_nothing_is_discarded(anna, letter):
    url = address("deadletter_discard", letter.pk)

    for reason in ("", "   ", "x" * 256):
        response = anna.post(url, {"confirmed": "yes", "reason": reason})
        assert response.context["form"].errors["reason"]

    assert DeadLetter.objects.get(pk=letter.pk).status == "open"


def test_one_that_is_not_open_any_more_is_left_as_it_is(anna, make_letter):
    letter = make_letter(status="replayed")

    response = anna.post(
        address("deadletter_discard", letter.pk), {"confirmed": "yes", "reason": "late"}, follow=True
    )

    assert messages_of(response) == ["Nothing was discarded: no letter of these is open any more."]
    assert DeadLetter.objects.get(pk=letter.pk).status == "replayed"


def test_all_that_a_filter_finds_are_discarded(anna, make_letter):
    yesterday = timezone.now() - timedelta(days=1)
    mine = [make_letter(queue="bulk", created_at=yesterday) for _ in range(3)]
    other = make_letter(queue="high", created_at=yesterday)
    url = address("deadletter_discard_all")

    asked = anna.get(url, {"queue": "bulk"})
    action = f"{url}?{asked.context['action_query']}"
    late = make_letter(queue="bulk")
    done = anna.post(action, {"confirmed": "yes", "reason": "cleared"}, follow=True)

    assert "3 open letters: queue bulk" in text_of(asked)
    assert "Discard 3 letters" in text_of(asked)
    assert messages_of(done) == ["Discarded 3 letters."]
    assert set(DeadLetter.objects.filter(status="discarded")) == set(mine)
    assert set(DeadLetter.objects.filter(status="open")) == {other, late}


def test_a_filter_that_is_wrong_or_asks_for_others_discards_nothing(anna, make_letter):
    make_letter(status="replayed")

    for query in ({"status": "all"}, {"status": "replayed"}, {"reason": "boredom"}):
        response = anna.get(address("deadletter_discard_all"), query, follow=True)
        assert messages_of(response) == [
            "Only open letters are discarded; the filter asks for something else."
        ]


def test_a_discarded_letter_is_opened_again(anna, make_letter):
    letter = make_letter(status="discarded")
    url = address("deadletter_reopen", letter.pk)

    done, again = anna.post(url, follow=True), anna.post(url, follow=True)

    assert "Open again" not in text_of(done)
    assert messages_of(done) == ["Opened again."]
    assert messages_of(again) == ["It is not discarded any more."]
    assert DeadLetter.objects.get(pk=letter.pk).status == "open"
    assert [a.kind for a in letter.actions.all()] == ["reopen"]
