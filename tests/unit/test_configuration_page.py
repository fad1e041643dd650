"""The configuration page lists every setting with its variable and its default, as they are in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taskyard.conf import ENV_PREFIX, Settings

PAGE = Path(__file__).parents[2] / "platform/docs/guide/configuration.md"
ROW = re.compile(r"^\| `(?P<name>[A-Z_]+)` \| `(?P<variable>TASKYARD_[A-Z_]+)` \| (?P<rest>.*) \|$", re.M)
# What cannot be written as it is in a cell.
WORDS = {None: "unset", "": "empty", (): "empty"}

ROWS = {
    match["name"]: (match["variable"], *match["rest"].split(" | "))
    for match in ROW.finditer(PAGE.read_text(encoding="utf-8"))
}


def test_the_page_lists_the_settings_that_exist_in_the_order_of_the_code() -> None:
    assert list(ROWS) == [name.upper() for name in Settings.model_fields]


@pytest.mark.parametrize("name", [name.upper() for name in Settings.model_fields])
def test_a_row_has_the_variable_and_the_default_of_its_setting(name: str) -> None:
    default = Settings.model_fields[name.lower()].get_default(call_default_factory=True)
    shown = WORDS[default] if default in (None, "", ()) else f"`{default}`"

    variable, shown_default, *_ = ROWS[name]

    assert (variable, shown_default) == (f"{ENV_PREFIX}{name}", shown)


@pytest.mark.parametrize("name", [name.upper() for name in Settings.model_fields])
def test_a_row_says_what_the_setting_means(name: str) -> None:
    _, _, _unit, meaning = ROWS[name]

    assert len(meaning) > len("port of Flower") - 1


@pytest.mark.parametrize(
    "name", [name.upper() for name in Settings.model_fields if name.endswith(("_seconds", "_bytes", "_port"))]
)
def test_a_number_has_its_unit(name: str) -> None:
    unit = ROWS[name][2]

    assert unit.startswith(name.rpartition("_")[2].lower())


def test_the_page_names_every_supported_and_every_planned_scheme() -> None:
    meaning = ROWS["BROKER_URL"][3]

    for scheme in ("redis", "rediss", "sentinel", "embedded", "amqp", "sqs"):
        assert f"`{scheme}://`" in meaning
