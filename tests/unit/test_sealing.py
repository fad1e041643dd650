"""What is sealed can be read with a key of the settings, and with nothing else."""

from __future__ import annotations

import json

import pytest

from taskyard.conf import build_settings, settings_from_environ
from taskyard.errors import SettingsError, UnsealingError
from taskyard.sealing import seal, unseal

VALUE = {"args": [7, "4111", None, 1.5, True], "kwargs": {"ümläut": ["x"]}}
OLD, NEW = "an-old-key-0123456789", "a-new-key-0123456789"


def with_keys(*keys):
    return build_settings({"ENCRYPTION_KEYS": list(keys)})


def test_it_is_read_as_it_was():
    assert unseal(seal(VALUE, with_keys(NEW)), with_keys(NEW)) == VALUE


def test_nothing_of_it_can_be_seen_and_no_two_are_alike():
    sealed = [seal(VALUE, with_keys(NEW)) for _ in range(2)]

    assert sealed[0] != sealed[1]
    assert "4111" not in "".join(sealed)
    assert all(text.isascii() for text in sealed)


class TestRotation:
    def test_the_first_key_seals(self):
        assert unseal(seal(VALUE, with_keys(NEW, OLD)), with_keys(NEW)) == VALUE

    def test_older_keys_open(self):
        assert unseal(seal(VALUE, with_keys(OLD)), with_keys(NEW, OLD)) == VALUE

    def test_a_key_that_is_gone_opens_nothing_and_the_error_says_what_to_do(self):
        sealed = seal(VALUE, with_keys(OLD))

        with pytest.raises(UnsealingError) as raised:
            unseal(sealed, with_keys(NEW))

        assert str(raised.value).startswith(
            "The stored arguments cannot be decrypted with any key of the settings. Put the key"
        )
        assert "ENCRYPTION_KEYS" in str(raised.value)
        assert NEW not in str(raised.value)
        assert raised.value.__cause__ is None

    @pytest.mark.parametrize("place", [0, 20, -10])
    def test_a_text_that_was_changed_is_not_opened(self, place):
        sealed = seal(VALUE, with_keys(NEW))
        changed = sealed[:place] + ("A" if sealed[place] != "A" else "B") + sealed[place:][1:]

        with pytest.raises(UnsealingError):
            unseal(changed, with_keys(NEW))

    @pytest.mark.parametrize("text", ["", "no token", "gAAAA", "\u00e4"])
    def test_a_text_that_was_never_sealed_is_not_opened(self, text):
        with pytest.raises(UnsealingError):
            unseal(text, with_keys(NEW))


class TestSecretKey:
    """Without keys of its own."""

    def test_it_is_sealed_with_the_secret_key(self, settings):
        settings.SECRET_KEY = OLD
        sealed = seal(VALUE, with_keys())
        settings.SECRET_KEY = NEW

        with pytest.raises(UnsealingError):
            unseal(sealed, with_keys())

    def test_its_fallbacks_open(self, settings):
        settings.SECRET_KEY = OLD
        sealed = seal(VALUE, with_keys())
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW, [OLD]

        assert unseal(sealed, with_keys()) == VALUE

    def test_the_same_text_as_a_key_is_the_same_key(self, settings):
        """So a project can take over what it has stored when it sets keys."""
        settings.SECRET_KEY = OLD

        assert unseal(seal(VALUE, with_keys()), with_keys(NEW, OLD)) == VALUE


class TestKeys:
    @pytest.mark.parametrize(("key", "length"), [("", 0), ("hunter2", 7), ("x" * 15, 15)])
    def test_a_short_key_is_refused_without_being_shown(self, key, length):
        with pytest.raises(SettingsError) as raised:
            with_keys(NEW, key)

        (problem,) = raised.value.problems
        assert problem.startswith(
            f"TASKYARD['ENCRYPTION_KEYS']: key 2 has {length} characters, and must have 16 or more."
        )
        assert "token_urlsafe" in problem
        assert "hunter2" not in problem

    def test_sixteen_characters_are_enough(self):
        assert len(with_keys("x" * 16).encryption_keys) == 1

    @pytest.mark.parametrize(
        "text", ['"hunter2hunter2hunter2"', '{"key": "hunter2hunter2"}', "hunter2", "[7]"]
    )
    def test_what_is_no_list_of_texts_is_refused_without_being_shown(self, text):
        with pytest.raises(SettingsError) as raised:
            build_settings(settings_from_environ({"TASKYARD_ENCRYPTION_KEYS": text}))

        assert "ENCRYPTION_KEYS" in str(raised.value)
        assert "hunter2" not in str(raised.value)

    @pytest.mark.parametrize("is_json", [True, False])
    def test_the_configuration_shows_that_there_are_some_and_not_which(self, monkeypatch, capsys, is_json):
        from django.core.management import call_command

        monkeypatch.setattr("taskyard.management.commands.taskyard.get_settings", lambda: with_keys(NEW, OLD))

        call_command("taskyard", "config", json=is_json)

        shown = capsys.readouterr().out
        assert NEW not in shown
        assert OLD not in shown
        found = json.loads(shown)["Taskyard"]["ENCRYPTION_KEYS"] if is_json else "******"
        assert found == "******"
        assert "ENCRYPTION_KEYS" in shown

    def test_the_settings_do_not_show_them_either(self):
        assert NEW not in f"{with_keys(NEW)!r} {with_keys(NEW)} {with_keys(NEW).model_dump()}"
