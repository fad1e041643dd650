"""Edit the arguments and replay: what is wrong is said next to the field, and nothing unseen is sent."""

from __future__ import annotations

import json

import pytest

from taskyard.deadletters.models import DeadLetter
from tests.unit.dead_letter_pages.conftest import address, messages_of, text_of


class Editor:
    """The page as its user sees it."""

    def __init__(self, client, letter):
        self.client = client
        self.url = address("deadletter_edit", letter.pk)

    def open(self):
        return self.client.get(self.url)

    def preview(self, args, kwargs="{}"):
        return self.client.post(self.url, {"args": args, "kwargs": kwargs, "action": "preview"})

    def replay(self, preview, *, args=None):
        """Press the button of a preview, perhaps after another edit."""
        form = preview.context["form"]
        sent = {name: form[name].value() for name in ("args", "kwargs", "previewed")}
        if args is not None:
            sent["args"] = args
        return self.client.post(self.url, {**sent, "action": "replay"}, follow=True)


@pytest.fixture
def editor(anna, app, letter):
    return Editor(anna, letter)


def test_it_opens_with_the_arguments_and_the_signature(anna, app, sealed_letter):
    response = Editor(anna, sealed_letter).open()

    assert json.loads(response.context["form"]["args"].value()) == [7, "******"]
    assert json.loads(response.context["form"]["kwargs"].value()) == {}
    text = text_of(response)
    assert "The task takes: shop.place_order(order_id: int, card: str = '', *, currency: str = 'EUR')" in text
    assert "****** stands for a value that is hidden" in text
    assert "4111-1111" not in response.content.decode()


@pytest.mark.parametrize(
    ("args", "kwargs", "field", "complaint"),
    [
        ("[1,", "{}", "args", "This is not JSON: expecting value, line 1, column 4."),
        ("[1]", "{'a': 1}", "kwargs", "This is not JSON: expecting property name"),
        ("[NaN]", "{}", "args", "This is not JSON: it has no number NaN."),
        ("{}", "{}", "args", "This is no JSON list, as in"),
        ("[1]", "[]", "kwargs", "This is no JSON object, as in"),
        ("[" * 100_000, "{}", "args", "It is nested too deeply."),
        ("[" * 900 + "]" * 900, "{}", "args", "It is nested over 100 levels deep"),
        ("[1]", f'{{"card": {"[" * 150 + "]" * 150}}}', "kwargs", "It is nested over 100 levels deep"),
        ("[1e999]", "{}", "args", "JSON has no such number"),
        ('["\\ud800"]', "{}", "args", "\\ud800 is one half of a character."),
        ("[1]", '{"card": "\\udfff"}', "kwargs", "\\udfff is one half of a character."),
        (
            "[]",
            "{}",
            "args",
            "missing 1 required positional argument: 'order_id'. It takes: shop.place_order(",
        ),
        ("[1, 2, 3]", "{}", "args", "from 1 to 2 positional arguments but 3 were given"),
        ("[1]", '{"currancy": "SEK"}', "kwargs", "got an unexpected keyword argument 'currancy'"),
        ("[1]", '{"order_id": 1}', "kwargs", "got multiple values for argument 'order_id'"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_wrong_is_said_next_to_its_field(editor, letter, args, kwargs, field, complaint):
    response = editor.preview(args, kwargs)

    errors = response.context["form"].errors
    assert list(errors) == [field]
    assert complaint in errors[field][0]
    assert response.context["form"]["args"].value() == args
    assert response.context["changes"] is None
    assert DeadLetter.objects.get(pk=letter.pk).status == "open"


def test_the_preview_shows_the_whole_call_and_marks_what_changes(anna, app, sealed_letter):
    response = Editor(anna, sealed_letter).preview('[8, "******"]', '{"currency": "SEK"}')

    changes = {change.name: (change.before, change.after) for change in response.context["changes"]}
    assert changes == {
        "order_id": ("7", "8"),
        "card": ('"******"', '"******"'),
        "currency": ("(not given)", '"SEK"'),
    }
    assert [c.name for c in response.context["changes"] if c.is_changed] == ["order_id", "currency"]
    assert DeadLetter.objects.get(pk=sealed_letter.pk).status == "open"


def test_an_argument_that_moves_to_its_name_is_the_same(editor, letter):
    response = editor.preview("[]", json.dumps({"order_id": letter.args[0]}))

    assert "Nothing changes: this is a replay with the same arguments." in text_of(response)


def test_a_replay_sends_the_new_values_and_keeps_the_hidden_ones(anna, app, sealed_letter, take_messages):
    editor = Editor(anna, sealed_letter)

    response = editor.replay(editor.preview('[8, "******"]', '{"currency": "SEK"}'))

    sealed_letter.refresh_from_db()
    (message,) = take_messages("high")
    args, kwargs, _ = message.payload
    assert (args, kwargs) == ([8, "4111-1111"], {"currency": "SEK"})
    assert messages_of(response) == [f"Replayed with these arguments as task {sealed_letter.replay_task_id}."]
    assert [(a.kind, a.actor) for a in sealed_letter.actions.all()] == [("edit_and_replay", "anna")]
    arrow = "\N{RIGHTWARDS ARROW}"
    text = text_of(response)
    assert f'order_id: 7 {arrow} 8 currency: (not given) {arrow} "SEK"' in text
    assert "Running, or done: it is not among the dead letters so far." in text
    assert f"card: {arrow}" not in text


def test_the_audit_masks_a_marked_argument_and_says_that_it_is_another(anna, app, sealed_letter):
    editor = Editor(anna, sealed_letter)

    response = editor.replay(editor.preview('[7, "4222-2222"]'))

    (action,) = sealed_letter.actions.all()
    assert action.detail["changes"] == [
        {"name": "card", "before": '"******"', "after": "another value, hidden"}
    ]
    assert "4222-2222" not in response.content.decode()


def test_what_was_not_previewed_is_not_sent(editor, take_messages, letter):
    response = editor.replay(editor.preview("[8]"), args="[9]")

    assert "The arguments are not those of the preview any more." in text_of(response)
    assert [change.after for change in response.context["changes"]] == ["9"]
    assert take_messages("high") == []

    editor.replay(response)

    assert take_messages("high")[0].payload[0] == [9]


def test_a_form_that_is_sent_twice_replays_once(editor, letter, take_messages):
    preview = editor.preview("[8]")
    editor.replay(preview)

    (message,) = messages_of(editor.replay(preview))

    assert "has been replayed already: by anna" in message
    assert len(take_messages("high")) == 1


def test_a_mask_where_nothing_is_hidden_is_refused(anna, app, sealed_letter):
    response = Editor(anna, sealed_letter).preview('[7, "4111"]', '{"currency": "******"}')

    assert "******" in response.context["refused"]
    assert "currency" in response.context["refused"]
    assert response.context["changes"] is None


def test_an_unknown_task_cannot_be_edited(anna, app, make_letter):
    letter = make_letter(task_name="shop.gone")

    response = anna.get(address("deadletter_edit", letter.pk), follow=True)

    assert "the task 'shop.gone' is not known here" in messages_of(response)[0]


def test_arguments_above_the_size_limit_are_refused_in_the_preview(editor, letter):
    response = editor.preview(json.dumps([1, "x" * 300_000]))

    assert "the limit is" in response.context["form"].errors["args"][0]
    assert response.context["changes"] is None
    assert DeadLetter.objects.get(pk=letter.pk).status == "open"


def test_arguments_that_are_too_large_together_are_refused_in_the_preview(editor):
    response = editor.preview(json.dumps([1, "x" * 150_000]), json.dumps({"currency": "x" * 150_000}))

    assert "the limit is" in text_of(response)
    assert response.context["changes"] is None
