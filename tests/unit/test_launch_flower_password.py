"""The password that `manage.py up` shows is the one that Flower asks for."""

from __future__ import annotations

import pytest

from taskyard.conf import build_settings
from taskyard.launch.flower_password import given_or_new_password


def test_the_variable_counts_where_the_settings_do_not_read_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TASKYARD_FLOWER_PASSWORD", "shown-by-up")

    assert given_or_new_password(build_settings({})) == ("shown-by-up", False)


def test_the_setting_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKYARD_FLOWER_PASSWORD", "shown-by-up")

    assert given_or_new_password(build_settings({"FLOWER_PASSWORD": "s3cret"})) == ("s3cret", False)
