"""Bulk replays: how many, a sample first, then the rest, with progress."""

from __future__ import annotations

import pytest
from django.utils import timezone

from taskyard.deadletters.models import BulkReplay, DeadLetter
from taskyard.deadletters.tasks import replay_in_bulk
from tests.unit.dead_letter_pages.conftest import address, messages_of, text_of

FORM = {"sample": 2, "rate_per_second": 1000}


@pytest.fixture
def start(anna, make_letter):
    """Begin a bulk replay of the high queue, and return it."""

    def start(letters=4):
        for _ in range(letters):
            make_letter(queue="high")
        response = anna.post(f"{address('deadletter_replay_all')}?queue=high", FORM)
        assert response.status_code == 302, text_of(response)
        return BulkReplay.objects.get()

    return start


@pytest.fixture
def work(take_messages):
    """Do what the workers would do with the slices that wait."""

    def work():
        for message in take_messages("low"):
            replay_in_bulk.run(*message.payload[0])

    return work


def page(client, bulk):
    return client.get(address("bulkreplay_change", bulk.pk))


def test_the_form_says_how_many_they_are(anna, app, make_letter):
    for queue in ("high", "high", "low"):
        make_letter(queue=queue)
    make_letter(queue="high", status="replayed")

    text = text_of(anna.get(address("deadletter_replay_all"), {"queue": "high"}))

    assert "2 open letters: queue high." in text
    assert "How many first" in text
    assert "Letters a second" in text
    assert "3 open letters, all there are." in text_of(anna.get(address("deadletter_replay_all")))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"sample": -1}, "greater than or equal to 0"),
        ({"sample": "x"}, "Enter a whole number."),
        ({"rate_per_second": 0}, "greater than or equal to 0.01"),
        ({"rate_per_second": 1e9}, "less than or equal to 1000"),
        ({"rate_per_second": "nan"}, "Enter a number."),
    ],
    ids=str,
)
def test_impossible_numbers_are_refused_next_to_their_field(anna, app, letter, changes, complaint):
    response = anna.post(address("deadletter_replay_all"), FORM | changes)

    assert complaint in text_of(response)
    assert not BulkReplay.objects.exists()


def test_it_keeps_what_was_chosen(anna, app, start):
    bulk = start()

    assert (bulk.sample, bulk.rate_per_second, bulk.total, bulk.started_by) == (2, 1000, 4, "anna")
    assert bulk.filters == {"queue": "high", "status": "open"}


def test_the_form_sent_twice_begins_one(anna, app, start):
    bulk = start()

    response = anna.post(f"{address('deadletter_replay_all')}?queue=high", FORM, follow=True)

    assert messages_of(response) == ["This bulk replay has begun already."]
    assert BulkReplay.objects.get() == bulk
    asked_again = text_of(anna.get(address("deadletter_replay_all"), {"queue": "high"}))
    assert "A bulk replay of the same letters is not finished" in asked_again


def test_nothing_to_replay_is_said(anna, app, db):
    response = anna.post(f"{address('deadletter_replay_all')}?queue=high", FORM)

    assert "No open dead letter matches the filter" in text_of(response)


def test_a_filter_for_others_than_open_ones_replays_nothing(anna, app, letter):
    response = anna.get(address("deadletter_replay_all"), {"status": "all"}, follow=True)

    assert messages_of(response) == ["Only open letters are replayed; the filter asks for something else."]


def test_without_a_broker_nothing_begins_and_the_page_says_so(anna, app_without_broker, letter):
    response = anna.post(address("deadletter_replay_all"), FORM)

    assert "Nothing is replayed:" in text_of(response)
    assert not BulkReplay.objects.exists()


def test_the_sample_is_shown_with_what_became_of_it(anna, app, start, work, make_letter):
    bulk = start()
    moving = text_of(page(anna, bulk))
    work()
    first, second, *rest = DeadLetter.objects.order_by("pk")
    again = make_letter(queue="critical", error="CardDeclined: still no money")
    DeadLetter.objects.filter(pk=again.pk).update(replay_of=first)

    text = text_of(page(anna, bulk))

    assert "Replaying the sample of 2 letters." in moving
    assert "Go on" not in moving
    assert "The sample is replayed: 1 of 2 failed again. Look at what becomes of it" in text
    assert "The sample: 2 replayed, 1 failed again, 1 not back" in text
    assert f"failed again letter {again.pk} : CardDeclined: still no money" in text
    assert f"{second.replay_task_id} not back running, or done" in text
    assert "Go on with the rest (2)" in text
    assert [letter.status for letter in rest] == ["open", "open"]


@pytest.mark.parametrize(
    ("back", "level", "first_button"),
    [(0, "good", "Go on with the rest (5)"), (1, "warn", "Go on with the rest (5)"), (2, "bad", "Stop")],
)
def test_the_banner_and_the_first_button_follow_from_what_came_back(
    anna, app, start, work, make_letter, monkeypatch, back, level, first_button
):
    monkeypatch.setitem(FORM, "sample", 3)
    bulk = start(letters=8)
    work()
    for letter in DeadLetter.objects.order_by("pk")[:back]:
        again = make_letter(queue="critical")
        DeadLetter.objects.filter(pk=again.pk).update(replay_of=letter)

    source = page(anna, bulk).content.decode()

    assert f'class="ty-note ty-{level}" aria-live' in source
    assert first_button in source.partition('<div class="ty-buttons">')[2].partition("</button>")[0]
    assert text_of(anna.get(address("bulkreplay_changelist"))).endswith(f"3 of 8 0 {back}")


def test_it_goes_on_with_the_rest(anna, app, start, work):
    bulk = start()
    work()

    anna.post(address("bulkreplay_go_on", bulk.pk))
    running = text_of(page(anna, bulk))
    work()
    done = text_of(page(anna, bulk))

    assert "Replaying: 2 letters to go." in running
    assert "Letters in all 4 Replayed 4 Not sent 0 Came back as dead letters 0" in done
    assert "Done." in done
    assert "Go on" not in done.replace("Skip to main content", "")
    assert set(DeadLetter.objects.values_list("status", flat=True)) == {"replayed"}


def test_it_is_stopped_and_taken_up_again(anna, app, start, work):
    bulk = start()
    work()

    anna.post(address("bulkreplay_stop", bulk.pk))
    stopped = text_of(page(anna, bulk))
    second_stop = anna.post(address("bulkreplay_stop", bulk.pk), follow=True)

    assert "Stopped: 2 letters left alone." in stopped
    assert "Go on with the rest (2)" in stopped
    assert "cannot be stopped" in messages_of(second_stop)[0]


def test_its_script_is_answered_with_the_figures(anna, app, start, work):
    bulk = start()
    work()

    progress = anna.get(address("bulkreplay_progress", bulk.pk)).json()

    assert {name: progress[name] for name in ("state", "total", "dealt_with", "replayed_text")} == {
        "state": "waiting",
        "total": 4,
        "dealt_with": 2,
        "replayed_text": "2",
    }
    assert progress["last_error"] == ""


def test_letters_that_cannot_be_replayed_are_counted_and_explained(anna, app, start, work, make_letter):
    make_letter(queue="high", task_name="shop.gone")
    bulk = start(letters=1)
    work()

    text = text_of(page(anna, bulk))

    assert "Letters in all 2 Replayed 1 Not sent 1" in text
    assert "the task 'shop.gone' is not known here" in text


def test_the_list_names_them_with_their_letters(anna, app, start):
    start()

    text = text_of(anna.get(address("bulkreplay_changelist")))

    assert "anna queue high replaying the sample 0 of 4 0 0" in text


def test_an_empty_list_says_how_to_begin(anna, db):
    assert "No bulk replay yet." in text_of(anna.get(address("bulkreplay_changelist")))


def test_letters_that_another_has_replayed_are_not_among_the_sample(anna, app, start, work):
    bulk = start()
    oldest = DeadLetter.objects.earliest("pk")
    DeadLetter.objects.filter(pk=oldest.pk).update(
        status="replayed", resolved_by="bert", resolved_at=timezone.now()
    )
    work()

    text = text_of(page(anna, bulk))

    assert "The sample: 2 replayed, none is back" in text
    assert f"{oldest.pk} shop.place_order" not in text


@pytest.mark.parametrize("name", ["bulkreplay_go_on", "bulkreplay_stop", "bulkreplay_progress"])
def test_one_that_is_not_there_is_not_found(anna, db, name):
    client_call = anna.get if name == "bulkreplay_progress" else anna.post

    assert client_call(address(name, 4711)).status_code == 404
    assert page(anna, BulkReplay(pk=4711)).status_code == 404
