"""The Django side of the environment: nothing that belongs to development is used in production."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from config.environment import (
    DEVELOPMENT_KEY_PREFIX,
    read_allowed_hosts,
    read_flag,
    read_secret_key,
)
from taskyard.errors import SettingsError


def development_key(key_file):
    return read_secret_key({}, debug=True, key_file=key_file)


class TestFlags:
    @pytest.mark.parametrize("text", ["1", "true", "True", "YES", "on", " 1 "])
    def test_yes(self, text):
        assert read_flag({"DJANGO_DEBUG": text}, "DJANGO_DEBUG") is True

    @pytest.mark.parametrize("text", ["0", "false", "No", "OFF"])
    def test_no(self, text):
        assert read_flag({"DJANGO_DEBUG": text}, "DJANGO_DEBUG", default=True) is False

    @pytest.mark.parametrize("environ", [{}, {"DJANGO_DEBUG": ""}, {"DJANGO_DEBUG": " "}])
    @pytest.mark.parametrize("default", [True, False])
    def test_unset(self, environ, default):
        assert read_flag(environ, "DJANGO_DEBUG", default=default) is default

    @pytest.mark.parametrize("text", ["2", "ja", "tru", "enabled"])
    def test_neither(self, text):
        with pytest.raises(SettingsError) as caught:
            read_flag({"DJANGO_DEBUG": text}, "DJANGO_DEBUG")

        assert caught.value.problems == (f"The environment variable DJANGO_DEBUG is {text!r}. Use 1 or 0.",)


class TestSecretKey:
    @pytest.mark.parametrize("debug", [True, False])
    def test_the_given_key_is_used_and_nothing_is_written(self, tmp_path, debug):
        key_file = tmp_path / "key"

        assert read_secret_key({"DJANGO_SECRET_KEY": "given"}, debug=debug, key_file=key_file) == "given"
        assert not key_file.exists()

    @pytest.mark.parametrize("environ", [{}, {"DJANGO_SECRET_KEY": ""}, {"DJANGO_SECRET_KEY": "  "}])
    def test_a_missing_key_is_refused_in_production_even_where_a_development_key_exists(
        self, tmp_path, environ
    ):
        development_key(tmp_path / "key")

        with pytest.raises(SettingsError) as caught:
            read_secret_key(environ, debug=False, key_file=tmp_path / "key")

        assert caught.value.problems == (
            "The environment variable DJANGO_SECRET_KEY is missing. Set it to a long random text, "
            "or set DJANGO_DEBUG=1 for development.",
        )

    def test_a_development_key_is_made_once_and_kept(self, tmp_path):
        key_file = tmp_path / "var" / "deep" / "key"

        first = development_key(key_file)

        assert development_key(key_file) == first
        assert first.startswith(DEVELOPMENT_KEY_PREFIX)
        assert len(first) > 60
        assert list(key_file.parent.iterdir()) == [key_file]

    def test_every_checkout_has_another_one(self, tmp_path):
        assert development_key(tmp_path / "one") != development_key(tmp_path / "two")

    def test_nobody_else_can_read_it(self, tmp_path):
        development_key(tmp_path / "key")

        assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600

    def test_whoever_starts_at_once_agrees(self, tmp_path):
        # `make up` starts ten processes
        for attempt in range(20):
            key_file = tmp_path / f"key-{attempt}"
            with ThreadPoolExecutor(8) as pool:
                keys = set(pool.map(development_key, [key_file] * 8))
            assert keys == {key_file.read_text()}

    def test_an_empty_key_file_says_what_to_do(self, tmp_path):
        key_file = tmp_path / "key"
        key_file.touch()

        with pytest.raises(SettingsError) as caught:
            development_key(key_file)

        assert caught.value.problems == (
            f"The file {key_file} is empty. Delete it; the next start makes a new key.",
        )


class TestAllowedHosts:
    @pytest.mark.parametrize("debug", [True, False])
    def test_names_are_separated_by_commas(self, debug):
        environ = {"DJANGO_ALLOWED_HOSTS": " a.example, b.example ,,"}

        assert read_allowed_hosts(environ, debug=debug) == ["a.example", "b.example"]

    def test_in_development_it_is_this_machine_only(self):
        assert read_allowed_hosts({}, debug=True) == ["127.0.0.1", "localhost", "[::1]", "testserver"]

    @pytest.mark.parametrize("text", ["", " ", ",", " , "])
    def test_missing_names_are_refused_in_production(self, text):
        with pytest.raises(SettingsError) as caught:
            read_allowed_hosts({"DJANGO_ALLOWED_HOSTS": text}, debug=False)

        assert caught.value.problems == (
            "The environment variable DJANGO_ALLOWED_HOSTS is missing. "
            "Set it to the site's host names, comma-separated.",
        )
