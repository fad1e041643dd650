"""The page of one letter."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet
from django.utils import timezone

from taskyard.deadletters.models import DeadLetter, DeadLetterAction
from tests.unit.dead_letter_pages.conftest import address, text_of

AT = 1_772_366_400.123456789  # 2026-03-01 12:00:00 UTC


def page(client, letter):
    return client.get(address("deadletter_change", letter.pk))


def test_it_begins_with_what_happened(reader, app, make_letter):
    letter = make_letter(
        attempts=[
            {"number": n, "at": AT + 60 * n, "worker": "w@host", "error": "CardDeclined: no"} for n in (1, 2)
        ]
    )

    text = text_of(page(reader, letter))

    assert "shop.place_order failed 2 times in 1 min and was given up: CardDeclined: no money open" in text
    assert f"{letter.created_at:%Y-%m-%d %H:%M:%S} UTC just now Queue high Reason retries exhausted" in text


def test_arguments_have_the_names_of_the_task_and_hidden_ones_stay_hidden(reader, app, make_letter):
    letter = make_letter(
        args=[7, "******"],
        true_args=[7, "4111-1111"],
        kwargs={"currency": "SEK", "at": {"__type__": "date", "__value__": "2026-03-01"}},
        true_kwargs={"currency": "SEK", "at": {"__type__": "date", "__value__": "2026-03-01"}},
    )

    response = page(reader, letter)

    assert 'order_id 7 card ****** hidden currency "SEK" at "2026-03-01 (date)"' in text_of(response)
    assert "4111-1111" not in response.content.decode()


def test_arguments_of_an_unknown_task_are_numbered(reader, app, make_letter):
    letter = make_letter(task_name="shop.gone", args=["a", {"b": 1.5}])

    assert 'argument 1 "a" argument 2 { "b": 1.5 }' in text_of(page(reader, letter))


def test_attempts_are_shown_with_their_tracebacks_the_last_one_first(reader, app, make_letter):
    letter = make_letter(
        attempts=[
            {
                "number": 1,
                "at": AT,
                "worker": "w1@host",
                "error": "First: <x>",
                "traceback": "Trace:\n    one",
            },
            {"number": 2, "at": AT + 1, "worker": "w2@host", "error": "Second", "traceback": ""},
        ]
    )

    response = page(reader, letter)

    text = text_of(response)
    assert text.index("2 2026-03-01 12:00:01") < text.index("1 2026-03-01 12:00:00")
    assert "w1@host First: <x> Trace: one" in text
    assert "<summary>First: &lt;x&gt;</summary>" in response.content.decode()
    assert str(AT) not in text


def test_the_traceback_is_shown_as_it_was_written(reader, app, make_letter):
    letter = make_letter(traceback='Traceback:\n    raise CardDeclined("<no>")\n    ^^^^^')

    page_source = page(reader, letter).content.decode()

    assert "Traceback:\n    raise CardDeclined(&quot;&lt;no&gt;&quot;)\n    ^^^^^</pre>" in page_source


def test_what_leads_to_it_elsewhere_is_there(reader, app, make_letter):
    letter = make_letter(
        correlation_id="request-77",
        headers={"tenant": "acme", "published_at": AT, "first_published_at": AT - 3600, "note": {"a": 1}},
        canvas={
            "chain": [{"task": "shop.bill"}, {"task": "shop.pack"}],
            "callbacks": [{"task": "shop.thank"}],
            "chord": {"task": "shop.report"},
            "group_id": "g-1",
            "group_index": 2,
        },
        worker="w@host",
    )

    response = page(reader, letter)

    text = text_of(response)
    for shown in (
        f"Task id {letter.task_id}",
        "Correlation id request-77",
        "Priority 7 (9 is the most urgent)",
        "First published 2026-03-01 11:00:00 (UTC)",
        "published_at 2026-03-01 12:00:00 UTC",
        "tenant acme",
        "Next in its chain: shop.pack, shop.bill.",
        "Called when it succeeds: shop.thank.",
        "Part of a chord: shop.report waits for it.",
        "Number 3 in the group g-1.",
    ):
        assert shown in text
    assert (
        'href="/admin/deadletters/deadletter/?status=all&amp;search=request-77"' in response.content.decode()
    )


def test_the_history_tells_who_did_what(reader, app, make_letter):
    letter = make_letter(worker="w@host")
    for kind, detail in (
        ("reveal", {}),
        ("edit_and_replay", {"task_id": "t-9", "edited": ["args", "kwargs"]}),
    ):
        DeadLetterAction.objects.create(letter=letter, kind=kind, actor="anna", detail=detail)

    text = text_of(page(reader, letter)).partition("History")[2]

    assert "w@host became a dead letter" in text
    assert "anna encrypted arguments shown" in text
    assert "anna edited and replayed as the task: t-9 changed: args, kwargs" in text


def test_a_replayed_letter_leads_to_its_run_and_back(reader, app, make_letter):
    letter = make_letter()
    again = make_letter()
    DeadLetter.objects.filter(pk=again.pk).update(replay_of=letter)
    DeadLetter.objects.filter(pk=letter.pk).update(
        status="replayed", resolved_by="anna", resolved_at=timezone.now(), replay_task_id="run-2"
    )

    forth, back = page(reader, letter), page(reader, again)

    assert "Replayed by anna" in text_of(forth)
    assert "as the task run-2 . It failed again: letter" in text_of(forth)
    assert address("deadletter_change", again.pk) in forth.content.decode()
    assert "This is the end of a replay of letter" in text_of(back)
    assert address("deadletter_change", letter.pk) in back.content.decode()


def test_a_discarded_letter_says_why(reader, make_letter):
    letter = make_letter()
    DeadLetter.objects.filter(pk=letter.pk).update(
        status="discarded", resolved_by="anna", resolved_at=timezone.now(), discard_reason="a test order"
    )

    assert "Discarded by anna" in text_of(page(reader, letter))
    assert ": a test order" in text_of(page(reader, letter))


def test_a_message_that_is_no_task_cannot_be_replayed_and_says_so(anna, make_letter):
    letter = make_letter(
        task_name="", task_id="", reason="undecodable", args=[], error="no JSON", raw="\x00raw"
    )

    text = text_of(page(anna, letter))

    assert "A message that cannot be decoded came on the queue high: no JSON" in text
    assert "It cannot be replayed: the message names no task." in text
    assert "Not known: the message was not understood." in text
    assert "Edit arguments" not in text
    assert "raw" not in text.replace("Show the message", "")


@pytest.mark.parametrize("broken", [{"args": {"a": 1}, "kwargs": []}, {"headers": [1], "attempts": {"x": 1}}])
def test_odd_columns_break_no_page(reader, letter, broken):
    DeadLetter.objects.filter(pk=letter.pk).update(**broken)

    assert page(reader, letter).status_code == 200


@pytest.mark.parametrize("number", ["4711", "x", "9" * 30, "-1"])
def test_a_letter_that_is_not_there_is_not_found(reader, db, number):
    assert reader.get(f"/admin/deadletters/deadletter/{number}/change/").status_code == 404


class TestReveal:
    """What is hidden is shown once, and that is recorded."""

    def test_it_shows_the_true_values_and_records_who_looked(self, anna, app, sealed_letter):
        response = anna.post(address("deadletter_reveal", sealed_letter.pk))

        assert 'card "4111-1111"' in text_of(response)
        assert "shown in clear: this was recorded" in text_of(response)
        assert "no-store" in response["Cache-Control"]
        assert [(a.kind, a.actor) for a in sealed_letter.actions.all()] == [("reveal", "anna")]
        assert "4111-1111" not in page(anna, sealed_letter).content.decode()

    def test_it_shows_a_message_that_no_worker_understood(self, anna, app, make_letter):
        letter = make_letter(task_name="", task_id="", reason="undecodable", args=[], raw="<odd> message")

        assert "<odd> message" in text_of(anna.post(address("deadletter_reveal", letter.pk)))

    def test_a_key_that_is_gone_is_named(self, anna, app, sealed_letter):
        DeadLetter.objects.update(sealed=Fernet(Fernet.generate_key()).encrypt(b"[]").decode())

        response = anna.post(address("deadletter_reveal", sealed_letter.pk), follow=True)

        assert "cannot be decrypted with any key" in text_of(response)
        assert not sealed_letter.actions.exists()

    def test_no_address_shows_it(self, anna, app, sealed_letter):
        assert anna.get(address("deadletter_reveal", sealed_letter.pk)).status_code == 405


def test_one_whose_replay_is_not_confirmed_names_the_task_that_may_run(reader, app, make_letter):
    letter = make_letter()
    DeadLetter.objects.filter(pk=letter.pk).update(
        status="replaying", replay_task_id="id-9", resolved_by="anna", resolved_at=timezone.now()
    )

    text = text_of(page(reader, letter))

    assert "A replay by anna" in text
    assert "it may run as the task id-9" in text
