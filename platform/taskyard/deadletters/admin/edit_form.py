"""The JSON editor of the arguments: what is wrong is said next to the field."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NoReturn

from django import forms

from taskyard.errors import ArgumentError
from taskyard.tasks.signature_fit import misfit, signature_text
from taskyard.wording import as_json


class JSONValueField(forms.CharField):
    """A JSON value of one kind, edited as text.

    Args:
        kind: what it must be: list or dict.
        wanted: the same for people, with an example.
    """

    def __init__(self, *, kind: type, wanted: str, **options: Any) -> None:
        attributes = {"spellcheck": "false", "autocomplete": "off"}
        super().__init__(
            required=False,
            strip=True,
            widget=forms.Textarea(attrs={"rows": 8, "wrap": "off", **attributes}),
            **options,
        )
        self._kind, self._wanted = kind, wanted

    def clean(self, value: Any) -> Any:
        text = super().clean(value) or as_json(self._kind())
        try:
            parsed = json.loads(text, parse_constant=_refuse_constant)
        except RecursionError:
            raise forms.ValidationError("It is nested too deeply.") from None
        except ValueError as error:
            raise forms.ValidationError(f"This is not JSON: {_what(error)}.") from None
        if not isinstance(parsed, self._kind):
            raise forms.ValidationError(f"This is no {self._wanted}.")
        return parsed


def _refuse_half_characters(values: Any) -> None:
    """Refuse what JSON can write and nothing else can: no page could show it, and no database keep it.

    Raises:
        ArgumentError: says which.
    """
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ArgumentError(f"{half} is one half of a character. Write both, or leave it out.") from None


class EditForm(forms.Form):
    """The arguments of a replay.

    Args:
        task: whose signature they must fit.
    """

    args = JSONValueField(
        kind=list,
        wanted='JSON list, as in [17, "EUR"]',
        label="Positional arguments",
        help_text="A JSON list.",
    )
    kwargs = JSONValueField(
        kind=dict,
        wanted='JSON object, as in {"currency": "EUR"}',
        label="Keyword arguments",
        help_text="A JSON object.",
    )
    # What the person has seen in the preview: a replay sends nothing else.
    previewed = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, task: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._task = task

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if "args" not in values or "kwargs" not in values:
            return values
        self._refuse_what_publishing_refuses(values)
        if self.errors:
            return values
        error = misfit(self._task, values["args"], values["kwargs"])
        if error is not None:
            # Python says which kind it is about, and nothing else does
            is_named = "keyword" in str(error) or "multiple values" in str(error)
            text = f"The task does not take this: {error}. It takes: {signature_text(self._task)}."
            self.add_error("kwargs" if is_named else "args", text)
        return values

    def _refuse_what_publishing_refuses(self, values: dict[str, Any]) -> None:
        for name, call in (("args", (values["args"], {})), ("kwargs", ([], values["kwargs"]))):
            try:
                self._task.app.check_arguments(self._task.name, *call)
                _refuse_half_characters(values[name])
            except ArgumentError as error:
                self.add_error(name, str(error))

    @property
    def seen(self) -> str:
        """What stands in `previewed` after a preview of these arguments."""
        canonical = json.dumps([self.cleaned_data["args"], self.cleaned_data["kwargs"]])
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def is_previewed(self) -> bool:
        return self.cleaned_data["previewed"] == self.seen


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it has no number {name}")


def _what(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg[0].lower()}{error.msg[1:]}, line {error.lineno}, column {error.colno}"
    return str(error)
