"""What every state store promises about registers: the latest value, for a time."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def test_a_register_gives_the_latest_value_and_each_writer_the_one_before(store, key):
    before = [store.put_latest(key, value, remember_seconds=60) for value in ("one", "two ☃ 😀", "three")]

    assert before == [None, "one", "two ☃ 😀"]
    assert store.read_latest(key) == "three"


def test_a_writer_that_repeats_itself_gets_the_same_answer(store, key):
    store.put_latest(key, "one", remember_seconds=60)
    store.put_latest(key, "two", remember_seconds=60)

    assert store.put_latest(key, "two", remember_seconds=60) == "one"
    assert store.put_latest(key, "three", remember_seconds=60) == "two"


def test_a_register_that_was_never_set_has_no_value(store, key):
    assert store.read_latest(key) is None
    assert not store.clear_latest(key, "one")


def test_a_register_is_forgotten_in_time(store, key):
    store.put_latest(key, "zero", remember_seconds=60)
    store.put_latest(key, "one", remember_seconds=0.2)
    wait_until(lambda: store.read_latest(key) is None, timeout_seconds=5, what="the register is forgotten")

    assert not store.clear_latest(key, "one")
    assert store.put_latest(key, "one", remember_seconds=60) is None
    assert store.read_latest(key) == "one"


def test_a_register_is_cleared_only_by_who_wrote_last(store, key):
    store.put_latest(key, "one", remember_seconds=60)
    store.put_latest(key, "two", remember_seconds=60)

    assert not store.clear_latest(key, "one")
    assert store.read_latest(key) == "two"
    assert store.clear_latest(key, "two")
    assert store.read_latest(key) is None
    assert store.put_latest(key, "three", remember_seconds=60) is None


def test_an_empty_value_and_a_long_one_are_values(store, key):
    store.put_latest(key, "", remember_seconds=60)
    store.put_latest(key, "x" * 10_000, remember_seconds=60)

    assert store.put_latest(key, "last", remember_seconds=60) == "x" * 10_000


def test_any_text_is_the_key_of_a_register(store, key):
    long = key + "\0" + "x" * 1000

    store.put_latest(long, "one", remember_seconds=60)

    assert store.read_latest(long) == "one"
    assert store.read_latest(long + "x") is None


def test_a_register_is_no_claim(store, key):
    store.put_latest(key, "one", remember_seconds=60)

    assert store.read(key) is None
    assert store.find(key) == []
