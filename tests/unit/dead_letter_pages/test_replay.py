"""The replay button: once, however often it is pressed."""

from __future__ import annotations

import pytest

from taskyard.deadletters.models import DeadLetter
from tests.unit.dead_letter_pages.conftest import address, messages_of, text_of


def replay(client, letter):
    return client.post(address("deadletter_replay", letter.pk), follow=True)


def test_it_is_published_and_the_page_says_as_which_task(anna, app, letter, take_messages):
    response = replay(anna, letter)

    letter.refresh_from_db()
    (message,) = take_messages("high")
    assert messages_of(response) == [f"Replayed as task {letter.replay_task_id}."]
    assert message.headers["id"] == letter.replay_task_id
    assert message.headers["correlation_id"] == letter.correlation_id
    assert (letter.status, letter.resolved_by) == ("replayed", "anna")
    assert [(a.kind, a.actor) for a in letter.actions.all()] == [("replay", "anna")]


def test_the_second_click_says_who_has_replayed_it_as_which_task(anna, log_in, app, letter, take_messages):
    bert = log_in("bert", "view_deadletter", "replay_deadletter")
    replay(anna, letter)

    (message,) = messages_of(replay(bert, letter))

    letter.refresh_from_db()
    assert f"has been replayed already: by anna at {letter.resolved_at:%Y-%m-%d %H:%M:%S} UTC" in message
    assert f"as task {letter.replay_task_id}" in message
    assert len(take_messages("high")) == 1
    assert letter.actions.count() == 1


def test_a_task_that_is_not_known_stays_a_dead_letter(anna, app, make_letter):
    letter = make_letter(task_name="shop.place_ordr")

    (message,) = messages_of(replay(anna, letter))

    assert "the task 'shop.place_ordr' is not known here. Did you mean 'shop.place_order'?" in message
    assert DeadLetter.objects.get(pk=letter.pk).status == "open"


def test_a_broker_that_is_away_leaves_it_open(anna, app_without_broker, letter):
    (message,) = messages_of(replay(anna, letter))

    assert f"Dead letter {letter.pk} was not replayed" in message
    assert "broker" in message
    assert DeadLetter.objects.get(pk=letter.pk).status == "open"


def test_a_form_of_another_site_is_refused(log_in, app, letter):
    client = log_in("anna", "view_deadletter", "replay_deadletter", enforces_csrf=True)

    assert client.post(address("deadletter_replay", letter.pk)).status_code == 403
    assert DeadLetter.objects.get(pk=letter.pk).status == "open"


def test_an_address_alone_replays_nothing(anna, app, letter):
    assert anna.get(address("deadletter_replay", letter.pk)).status_code == 405
    assert DeadLetter.objects.get(pk=letter.pk).status == "open"


def test_a_letter_that_was_deleted_meanwhile_is_not_found(anna, db):
    assert anna.post(address("deadletter_replay", 4711)).status_code == 404


class TestSelected:
    """The letters that were ticked on the list."""

    def act(self, client, action, *letters, **more):
        ids = [letter.pk for letter in letters]
        return client.post(
            address("deadletter_selected"), {"action": action, "letter": ids, **more}, follow=True
        )

    def test_they_are_replayed_and_the_others_are_left_alone(self, anna, app, make_letter, take_messages):
        first, second, third = make_letter(), make_letter(), make_letter()

        response = self.act(anna, "replay", first, third)

        assert messages_of(response) == ["Replayed 2 letters."]
        assert len(take_messages("high")) == 2
        assert DeadLetter.objects.get(status="open") == second

    def test_those_that_cannot_be_replayed_are_named(self, anna, app, make_letter):
        good, gone = make_letter(), make_letter(task_name="shop.gone")

        done, failed = messages_of(self.act(anna, "replay", good, gone))

        assert done == "Replayed 1 letter."
        assert "the task 'shop.gone' is not known here" in failed

    def test_a_broker_that_is_away_is_asked_once(self, anna, app_without_broker, make_letter):
        (message,) = messages_of(self.act(anna, "replay", make_letter(), make_letter(), make_letter()))

        assert "was not replayed" in message
        assert message.endswith("The others were left alone.")
        assert DeadLetter.objects.filter(status="open").count() == 3

    @pytest.mark.parametrize("letters", [[], ["x", "-3"]])
    def test_nothing_selected_is_said(self, anna, db, letters):
        response = anna.post(
            address("deadletter_selected"), {"action": "replay", "letter": letters}, follow=True
        )

        assert messages_of(response) == ["No letter is selected. Tick the boxes on the left first."]

    def test_they_are_discarded_with_a_reason(self, anna, app, make_letter):
        first, second, third = make_letter(), make_letter(), make_letter()

        asked = self.act(anna, "discard", first, third)
        refused = self.act(anna, "discard", first, third, confirmed="yes", reason=" ")
        done = self.act(anna, "discard", first, third, confirmed="yes", reason="test data")

        assert "2 letters picked on the list." in text_of(asked)
        assert "Say why." in text_of(refused)
        assert messages_of(done) == ["Discarded 2 letters."]
        assert DeadLetter.objects.get(status="open") == second
        assert {a.detail["reason"] for a in first.actions.all()} == {"test data"}
