"""Which keys a state store takes, and how its claims are found by the beginning of their keys."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
ODD = [
    "with space\tand\nlines",
    "per%cent under_score back\\slash",
    "*?[a-z]^$()",
    'quote\'s "and" `ticks`; --',
    "{order.id}:7",
    "naïve ☃ 😀",
    "nul \0 inside",
    "half a pair \ud800",
    "x" * 255,
    "x" * 256,
    "ü" * 5000,
]


def ids(value):
    return repr(value)[:16].encode("ascii", "replace").decode()


@pytest.mark.parametrize("odd", ODD, ids=ids)
def test_any_text_is_a_key(store, hold, key, odd):
    odd = f"{key}{odd}"

    claim = hold("a", of=odd).claim

    assert not hold("b", of=odd).is_granted
    assert store.read(odd).fence == store.read(claim.key).fence == claim.fence
    assert [found.key for found in store.find(key)] == [claim.key]
    assert store.complete(odd, owner="a", result=1, remember_seconds=60)
    assert store.force_release(claim.key).state == "done"
    assert hold("b", of=odd).is_granted


def test_an_ordinary_key_is_stored_as_it_is(hold, key):
    assert hold("a", of=f"{key}: naïve ☃").claim.key == f"{key}: naïve ☃"


def test_long_keys_that_differ_at_the_end_are_two_keys(hold, key):
    long = key + "x" * 1000

    first, second = hold("a", of=long + "1"), hold("b", of=long + "2")

    assert first.is_granted
    assert second.is_granted
    assert first.claim.key != second.claim.key


def test_keys_that_differ_in_what_cannot_be_stored_are_two_keys(hold, key):
    attempts = [hold("a", of=key + end) for end in ("\0", "\ud800", "\ud801", "\N{REPLACEMENT CHARACTER}")]

    assert len({attempt.claim.key for attempt in attempts}) == 4
    assert len({attempt.claim.fence for attempt in attempts}) == 4


def test_an_empty_key_is_refused(store, hold):
    with pytest.raises(ValueError, match="key of a claim is empty"):
        hold("a", of="")
    with pytest.raises(ValueError, match="key of a claim is empty"):
        store.read("")


def test_claims_are_found_by_the_beginning_of_their_keys_oldest_first(store, hold, key):
    names = [f"{key}:{name}" for name in ("c", "a", "b")]
    for name in names:
        hold("a", of=name)
    store.complete(names[1], owner="a", result="done", remember_seconds=60)
    hold("a", of=f"other {key}:")
    hold("a", of=f"{key.upper()}:")

    found = store.find(f"{key}:")

    assert [claim.key for claim in found] == names
    assert [claim.state for claim in found] == ["held", "done", "held"]
    assert found[1].result == "done"
    assert [claim.key for claim in store.find(f"{key}:", limit=2)] == names[:2]
    assert [claim.key for claim in store.find(f"{key}:", state="held", limit=2)] == [names[0], names[2]]
    assert [claim.key for claim in store.find(f"{key}:", state="done")] == [names[1]]
    assert [claim.key for claim in store.find(f"{key}:b")] == [f"{key}:b"]
    assert [claim.key for claim in store.find(f"{key}:", state="held")] == [names[0], names[2]]
    assert [claim.key for claim in store.find(f"{key}:", state="held", limit=1)] == [names[0]]
    assert [claim.key for claim in store.find(f"{key}:", state="done")] == [names[1]]


def test_what_is_free_is_not_found(store, hold, key):
    hold("a", of=f"{key}:ends", lease_seconds=0.1)
    hold("a", of=f"{key}:released")
    hold("a", of=f"{key}:freed")
    store.release(f"{key}:released", owner="a")
    store.force_release(f"{key}:freed")
    wait_until(lambda: store.read(f"{key}:ends") is None, timeout_seconds=5, what="the lease has ended")

    assert store.find(f"{key}:") == store.find(f"{key}:", state="held") == []
    hold("a", of=f"{key}:young")
    for state in (None, "held"):
        assert [claim.key for claim in store.find(f"{key}:", state=state, limit=1)] == [f"{key}:young"]


@pytest.mark.parametrize("beginning", ["*", "?", "[a-z]", "%", "_", "\\", "^", "'", "\0"], ids=ids)
def test_the_beginning_of_a_key_is_no_pattern(store, hold, key, beginning):
    hold("a", of=f"{key}{beginning}end")
    hold("a", of=f"{key}{beginning}", lease_seconds=30)
    hold("a", of=f"{key}x end")

    assert len(store.find(f"{key}{beginning}")) == 2
    assert len(store.find(f"{key}{beginning}e")) == 1


def test_many_claims_are_found_over_several_pages(store, hold, key):
    for number in range(1200):
        hold("a", of=f"{key}:{number:04}")

    found = store.find(f"{key}:", limit=1100)

    assert [claim.key for claim in found] == [f"{key}:{number:04}" for number in range(1100)]
