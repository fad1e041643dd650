"""Replay: the same call once more, sent once, and never lost between two states."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery import signature
from celery.signals import before_task_publish

from taskyard.deadletters.models import DeadLetter, DeadLetterAction
from taskyard.deadletters.replay import recover_replays, replay
from taskyard.errors import DeadLetterError, DeadLetterNotOpenError, DeadLetterNotPublishedError
from taskyard.masking import MASK
from tests.support.letters import CARD, SECRET, TASK, counted, letter, unreachable_broker

pytestmark = pytest.mark.usefixtures("letter_app")
STALE = timedelta(seconds=61)


@pytest.fixture
def broker_down(letter_app, settings):
    """The broker takes nothing."""
    with unreachable_broker(settings):
        yield


def only_message(take_messages, queue="high"):
    (message,) = take_messages(queue)
    return message


def age(row, by=STALE):
    """Let a replay have been begun a while ago."""
    row.refresh_from_db()
    DeadLetter.objects.filter(pk=row.pk).update(resolved_at=row.resolved_at - by)


class TestTheMessage:
    def test_it_keeps_queue_priority_headers_and_correlation_id(self, take_messages):
        row = letter()

        task_id = replay(row.pk, actor="ann")

        message = only_message(take_messages)
        assert message.payload[0] == [7]
        assert message.headers["task"] == TASK
        assert message.headers["id"] == task_id != row.task_id
        assert message.properties["priority"] == 9
        assert message.headers["tenant"] == "acme"
        assert message.headers["correlation_id"] == "corr-1"
        assert message.headers["replay_of_dead_letter"] == row.pk
        assert message.headers["retries"] == 0

    def test_its_age_and_its_counts_begin_anew(self, take_messages, clock):
        """With the old first publish, a policy with an age limit would end at the first failure."""
        replay(letter().pk, actor="ann")

        headers = only_message(take_messages).headers
        assert headers["first_published_at"] == headers["published_at"] == clock.now().timestamp()
        assert "worker_losses" not in headers

    def test_it_carries_the_true_arguments_and_shows_the_mask(self, take_messages):
        replay(letter(SECRET).pk, actor="ann")

        message = only_message(take_messages)
        assert message.payload[1] == {"card": CARD}
        assert CARD not in str(message.headers)

    def test_what_follows_the_task_follows_it_again(self, take_messages):
        callback = dict(signature("mail.send", (1,)))
        rest = [dict(signature("orders.ship", (2,)))]
        canvas = {
            "callbacks": [callback],
            "errbacks": [callback],
            "chain": rest,
            "chord": dict(signature("sum.up")),
            "group": "group-1",
            "group_index": 3,
            "root_id": "root-1",
            "parent_id": "parent-1",
        }

        replay(letter(canvas=canvas, true_canvas=canvas).pk, actor="ann")

        message = only_message(take_messages)
        embedded = message.payload[2]
        assert embedded["callbacks"][0]["task"] == embedded["errbacks"][0]["task"] == "mail.send"
        assert embedded["chain"][0]["task"] == "orders.ship"
        assert embedded["chord"]["task"] == "sum.up"
        found = [message.headers[name] for name in ("group", "group_index", "root_id", "parent_id")]
        assert found == ["group-1", 3, "root-1", "parent-1"]

    def test_without_a_family_it_is_its_own_root(self, take_messages):
        task_id = replay(letter().pk, actor="ann")

        assert only_message(take_messages).headers["root_id"] == task_id

    @pytest.mark.parametrize(("stored", "sent"), [(0.5, None), (7200, 7200)])
    def test_a_lower_time_limit_than_todays_is_left_out(self, letter_app, take_messages, stored, sent):
        """It may have been raised because of this very dead letter."""
        letter_app.tasks[TASK].time_limit, letter_app.tasks[TASK].soft_time_limit = 60, 30
        canvas = {"timelimit": [stored, None]}

        replay(letter(canvas=canvas, true_canvas=canvas).pk, actor="ann")

        assert only_message(take_messages).headers["timelimit"] == [sent or 60, 30]

    def test_values_that_json_does_not_have_are_restored(self, take_messages):
        wire = [{"__type__": "decimal", "__value__": "1.10"}]

        replay(letter(args=wire, true_args=wire).pk, actor="ann")

        assert str(only_message(take_messages).payload[0]) == "[Decimal('1.10')]"

    @pytest.mark.parametrize(("stored", "sent"), [(None, 5), (0, 0), (12, 9)])
    def test_any_stored_priority_can_be_sent(self, take_messages, stored, sent):
        replay(letter(priority=stored).pk, actor="ann")

        assert only_message(take_messages).properties["priority"] == sent

    def test_a_queue_that_is_gone_is_left_to_the_router(self, take_messages):
        replay(letter(queue="abolished").pk, actor="ann")

        assert only_message(take_messages, "default")


class TestTheRow:
    def test_it_says_who_and_when_and_names_the_new_task(self):
        row = letter()

        task_id = replay(row.pk, actor="ann")

        row.refresh_from_db()
        assert (row.status, row.replay_task_id, row.resolved_by) == ("replayed", task_id, "ann")
        assert row.resolved_at is not None
        (action,) = DeadLetterAction.objects.filter(letter=row)
        assert (action.kind, action.actor, action.detail) == ("replay", "ann", {"task_id": task_id})
        assert counted() == {"replayed": 1}

    def test_it_is_sent_once(self, take_messages):
        row = letter()
        task_id = replay(row.pk, actor="ann")

        with pytest.raises(DeadLetterNotOpenError) as caught:
            replay(row.pk, actor="bob")

        assert f"has been replayed already: by ann at {row.created_at:%Y-%m-%d}" in str(caught.value)
        assert task_id in str(caught.value)
        assert len(take_messages("high")) == 1
        assert DeadLetterAction.objects.count() == 1

    def test_a_discarded_one_is_refused(self):
        row = letter()
        DeadLetter.objects.filter(pk=row.pk).update(
            status="discarded", resolved_by="ann", resolved_at=row.created_at, discard_reason="a test"
        )

        with pytest.raises(DeadLetterNotOpenError, match=r"has been discarded: by ann at .* \(a test\)"):
            replay(row.pk, actor="bob")

    def test_one_that_is_not_there_is_refused(self):
        with pytest.raises(DeadLetterError, match="Dead letter 12 does not exist"):
            replay(12, actor="ann")


class TestEdited:
    def test_the_new_arguments_are_sent_and_the_audit_says_which_were_edited(self, take_messages):
        row = letter()

        task_id = replay(row.pk, actor="ann", args=[8], kwargs={})

        assert only_message(take_messages).payload[0] == [8]
        (action,) = DeadLetterAction.objects.all()
        assert action.kind == "edit_and_replay"
        assert action.detail == {
            "task_id": task_id,
            "edited": ["args"],
            "changes": [{"name": "order", "before": "7", "after": "8"}],
        }

    def test_the_same_arguments_are_no_edit(self):
        replay(letter().pk, actor="ann", args=[7], kwargs={})

        assert DeadLetterAction.objects.get().kind == "replay"

    def test_a_mask_means_the_true_value(self, take_messages):
        replay(letter(SECRET).pk, actor="ann", args=[8], kwargs={"card": MASK})

        message = only_message(take_messages)
        assert message.payload[0] == [8]
        assert message.payload[1] == {"card": CARD}

    def test_a_mask_means_the_true_value_at_any_depth(self, take_messages):
        true = [{"card": {"number": CARD, "to": ["a", CARD]}, "note": "old"}]
        row = letter(args=[MASK], true_args=true)

        replay(row.pk, actor="ann", args=[{"card": {"number": MASK, "to": ["a", MASK]}, "note": "new"}])

        assert only_message(take_messages).payload[0] == [{**true[0], "note": "new"}]

    @pytest.mark.parametrize(
        ("args", "kwargs", "where"),
        [([8, MASK], None, r"args\[1\]"), (None, {"other": MASK}, r"kwargs\['other'\]")],
    )
    def test_a_mask_without_a_true_value_is_refused(self, args, kwargs, where):
        with pytest.raises(DeadLetterError, match=f"{where} is the mask"):
            replay(letter(SECRET).pk, actor="ann", args=args, kwargs=kwargs)

    @pytest.mark.parametrize(
        ("args", "kwargs", "what"),
        [
            ([], None, "missing 1 required positional argument: 'order'"),
            ([1, 2], None, "takes 1 positional argument but 2"),
            ([1], {"oder": 2}, "got an unexpected keyword argument 'oder'"),
        ],
    )
    def test_arguments_that_do_not_fit_are_refused_with_the_signature(
        self, args, kwargs, what, take_messages
    ):
        row = letter()

        with pytest.raises(DeadLetterError) as caught:
            replay(row.pk, actor="ann", args=args, kwargs=kwargs)

        assert what in str(caught.value)
        assert "letters.charge(order: int, *, card: str | None = None)" in str(caught.value)
        assert take_messages("high") == []
        assert counted() == {"open": 1}


class TestWhatCannotBeReplayed:
    def test_a_message_without_a_task(self):
        row = letter(task_name="", reason="undecodable", raw="garbage")

        with pytest.raises(DeadLetterError, match="its message names no task") as caught:
            replay(row.pk, actor="ann")

        assert "discard this one with a reason" in str(caught.value)

    def test_a_task_that_this_process_does_not_know(self):
        row = letter(task_name="letters.chrge")

        with pytest.raises(DeadLetterError) as caught:
            replay(row.pk, actor="ann")

        assert f"the task 'letters.chrge' is not known here. Did you mean '{TASK}'?" in str(caught.value)

    def test_masked_arguments_whose_truth_was_not_stored(self):
        row = letter(kwargs={"card": MASK}, true_args=[], true_kwargs={})

        with pytest.raises(DeadLetterError, match="argument 'card' is masked"):
            replay(row.pk, actor="ann")

    def test_sealed_arguments_that_no_key_opens(self, settings):
        row = letter(SECRET)
        settings.SECRET_KEY = "another one"

        with pytest.raises(DeadLetterError, match=f"Dead letter {row.pk} cannot be opened"):
            replay(row.pk, actor="ann")

    def test_arguments_that_the_guard_refuses(self, letter_app):
        row = letter(args=["x" * 300_000], true_args=["x" * 300_000])

        with pytest.raises(DeadLetterError, match=r"was not replayed: .* the limit is 262,144"):
            replay(row.pk, actor="ann")

        assert counted() == {"open": 1}

    def test_after_a_deployment_that_knows_the_task_its_message_is_replayed(self, take_messages):
        raw = '[[7], {"card": "4111"}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]'
        row = letter(
            reason="unknown_task",
            args=[],
            true_args=[],
            raw=f"content-type: application/json\n\n{raw}",
            headers={"task": TASK, "id": "id-1", "root_id": "root-1", "lang": "py", "tenant": "acme"},
        )

        replay(row.pk, actor="ann")

        message = only_message(take_messages)
        assert message.payload[:2] == [[7], {"card": "4111"}]
        assert message.headers["tenant"] == "acme"
        assert message.headers["root_id"] == "root-1"
        assert message.headers["id"] != "id-1"


class TestBrokerAway:
    def test_it_is_open_again_and_the_error_says_why(self, broker_down):
        row = letter()

        with pytest.raises(
            DeadLetterNotPublishedError, match=f"Dead letter {row.pk} was not replayed, it is open"
        ):
            replay(row.pk, actor="ann")

        row.refresh_from_db()
        assert (row.status, row.resolved_by, row.resolved_at) == ("open", "", None)
        assert counted() == {"open": 1}
        assert DeadLetterAction.objects.count() == 0

    def test_the_next_replay_is_the_same_task(self, settings, take_messages):
        row = letter()
        with unreachable_broker(settings), pytest.raises(DeadLetterNotPublishedError):
            replay(row.pk, actor="ann")
        row.refresh_from_db()

        assert replay(row.pk, actor="ann") == row.replay_task_id
        assert len(take_messages("high")) == 1


class TestDeadProcess:
    """The process that has claimed the letter died before or after its publish: nobody knows."""

    def claimed(self, failure=SECRET, **edited):
        class Killed(BaseException):
            """Ends the process between the claim and the publish."""

        def die(**_):
            raise Killed

        row = letter(failure)
        before_task_publish.connect(die)
        try:
            with pytest.raises(Killed):
                replay(row.pk, actor="ann", **edited)
        finally:
            before_task_publish.disconnect(die)
        row.refresh_from_db()
        return row

    def test_it_can_be_replayed_again_after_a_minute_with_the_same_id(self, take_messages):
        row = self.claimed()
        with pytest.raises(DeadLetterNotOpenError, match="is being replayed: by ann since"):
            replay(row.pk, actor="bob")
        assert take_messages("high") == []
        age(row)

        assert replay(row.pk, actor="bob") == row.replay_task_id

        message = only_message(take_messages)
        assert message.headers["id"] == row.replay_task_id
        assert message.payload[1] == {"card": CARD}
        row.refresh_from_db()
        assert row.status == "replayed"
        assert counted() == {"replayed": 1}

    def test_the_schedule_does_it_too(self, take_messages):
        row = self.claimed()
        assert recover_replays() == 0
        age(row)

        assert recover_replays() == 1

        assert only_message(take_messages).headers["id"] == row.replay_task_id
        assert recover_replays() == 0

    def test_the_edited_arguments_are_sent(self, take_messages):
        row = self.claimed(args=[8], kwargs={"card": "4222"})
        age(row)

        recover_replays()

        message = only_message(take_messages)
        assert message.payload[:2] == [[8], {"card": "4222"}]
        assert "4222" not in str(vars(DeadLetter.objects.get()))
        assert DeadLetterAction.objects.get().kind == "edit_and_replay"

    def test_one_whose_task_is_gone_is_opened_again(self, letter_app, take_messages):
        row = self.claimed()
        age(row)
        DeadLetter.objects.filter(pk=row.pk).update(task_name="gone.task")

        assert recover_replays() == 0

        row.refresh_from_db()
        assert row.status == "open"

    def test_with_the_broker_away_it_waits(self, broker_down):
        """The dead process may have sent it: only the same call under the same id may follow."""
        row = self.claimed(args=[8])
        age(row)

        assert recover_replays() == 0

        first = (row.status, row.replay_task_id, row.replay_sealed)
        row.refresh_from_db()
        assert (row.status, row.replay_task_id, row.replay_sealed) == first
        assert row.status == "replaying"
        assert counted() == {"replaying": 1}
