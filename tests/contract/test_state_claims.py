"""What every state store promises about claims (see `taskyard.state.interface`)."""

from datetime import UTC, datetime

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
SHORT_SECONDS = 0.2


def has_ended(store, key):
    """Wait until the claim is free."""
    wait_until(lambda: store.read(key) is None, timeout_seconds=5, what=f"the claim {key} is free")


def remaining(store, key):
    return store.read(key).expires_in_seconds


class TestAcquire:
    def test_a_free_claim_is_granted(self, hold, key):
        attempt = hold("a", lease_seconds=60, task="mail.send", worker="é@host")

        claim = attempt.claim
        assert attempt.is_granted
        assert (claim.key, claim.state, claim.owner, claim.duplicates) == (key, "held", "a", 0)
        assert claim.holder == {"task": "mail.send", "worker": "é@host"}
        assert claim.result is None
        assert abs(claim.since - datetime.now(UTC).timestamp()) < 5
        assert 55 < claim.expires_in_seconds <= 60

    def test_a_held_claim_is_refused_and_says_who_has_it(self, hold):
        first = hold("a", task="one").claim

        second = hold("b", task="two")
        third = hold("c", task="three")

        assert not second.is_granted
        assert not third.is_granted
        assert (third.claim.owner, third.claim.holder, third.claim.fence) == (
            "a",
            {"task": "one"},
            first.fence,
        )
        assert third.claim.since == first.since
        assert (second.claim.duplicates, third.claim.duplicates) == (1, 2)

    def test_a_refusal_does_not_prolong_the_lease(self, hold, store, key):
        hold("a", lease_seconds=10)

        hold("b", lease_seconds=1000)

        assert remaining(store, key) <= 10

    def test_the_same_owner_is_granted_again_with_the_same_fence(self, hold, store, key):
        first = hold("a", lease_seconds=10, pid=1).claim
        hold("b")

        again = hold("a", lease_seconds=60, pid=1)

        assert again.is_granted
        assert (again.claim.fence, again.claim.since) == (first.fence, first.since)
        assert again.claim.duplicates == 1
        assert remaining(store, key) > 50

    def test_the_claim_is_free_when_the_lease_has_ended(self, hold, store, key):
        first = hold("a", lease_seconds=SHORT_SECONDS).claim
        hold("b")
        has_ended(store, key)

        second = hold("b")

        assert second.is_granted
        assert second.claim.fence > first.fence
        assert second.claim.since > first.since
        assert second.claim.duplicates == 0

    def test_the_same_owner_keeps_its_fence_after_a_lease_that_nobody_took(self, hold, store, key):
        first = hold("a", lease_seconds=SHORT_SECONDS).claim
        has_ended(store, key)

        again = hold("a")

        assert again.is_granted
        assert again.claim.fence == first.fence

    def test_a_claim_that_is_done_is_granted_to_nobody(self, hold, store, key):
        hold("a")
        store.complete(key, owner="a", result={"paid": 5}, remember_seconds=60)

        attempts = [hold("b"), hold("a")]

        assert not any(attempt.is_granted for attempt in attempts)
        assert attempts[1].claim.state == "done"
        assert attempts[1].claim.result == {"paid": 5}
        assert attempts[1].claim.duplicates == 2

    def test_a_claim_that_is_forgotten_is_granted_again(self, hold, store, key):
        first = hold("a").claim
        store.complete(key, owner="a", result=1, remember_seconds=SHORT_SECONDS)
        has_ended(store, key)

        second = hold("b")

        assert second.is_granted
        assert second.claim.fence > first.fence
        assert (second.claim.result, second.claim.duplicates) == (None, 0)

    def test_keys_do_not_touch_each_other(self, hold, key):
        attempts = [hold("a"), hold("b", of=key + " other"), hold("c", of=key.upper())]

        assert all(attempt.is_granted for attempt in attempts)


class TestRenew:
    def test_it_prolongs_the_lease(self, hold, store, key):
        hold("a", lease_seconds=10)

        assert store.renew(key, owner="a", lease_seconds=60)
        assert remaining(store, key) > 50

    def test_a_renewed_claim_outlives_its_first_lease(self, hold, store, key):
        hold("a", lease_seconds=SHORT_SECONDS)
        store.renew(key, owner="a", lease_seconds=60)
        hold("c", lease_seconds=SHORT_SECONDS, of=key + " later")
        has_ended(store, key + " later")

        assert not hold("b").is_granted

    def test_a_lease_that_has_ended_is_prolonged_if_nobody_took_it(self, hold, store, key):
        first = hold("a", lease_seconds=SHORT_SECONDS).claim
        has_ended(store, key)

        assert store.renew(key, owner="a", lease_seconds=60)
        assert not hold("b").is_granted
        assert store.read(key).fence == first.fence

    def test_a_free_claim_is_not_made(self, store, key):
        assert not store.renew(key, owner="a", lease_seconds=60)
        assert store.read(key) is None

    def test_what_is_done_is_not_prolonged(self, hold, store, key):
        hold("a")
        store.complete(key, owner="a", result=None, remember_seconds=10)

        assert not store.renew(key, owner="a", lease_seconds=1000)
        assert remaining(store, key) <= 10


class TestComplete:
    def test_the_claim_is_done_and_remembered(self, hold, store, key):
        held = hold("a", lease_seconds=5, task="one").claim

        assert store.complete(key, owner="a", result=[1, "two"], remember_seconds=1000)
        done = store.read(key)
        assert (done.state, done.owner, done.result) == ("done", "a", [1, "two"])
        assert (done.fence, done.since, done.holder) == (held.fence, held.since, {"task": "one"})
        assert 900 < done.expires_in_seconds <= 1000

    def test_it_succeeds_after_a_lease_that_nobody_took(self, hold, store, key):
        hold("a", lease_seconds=SHORT_SECONDS)
        has_ended(store, key)

        assert store.complete(key, owner="a", result=1, remember_seconds=60)
        assert store.read(key).state == "done"

    def test_the_same_owner_may_repeat_it(self, hold, store, key):
        hold("a")
        store.complete(key, owner="a", result=1, remember_seconds=60)

        assert store.complete(key, owner="a", result=1, remember_seconds=60)
        assert store.read(key).result == 1

    def test_a_free_claim_is_not_made(self, store, key):
        assert not store.complete(key, owner="a", result=1, remember_seconds=60)
        assert store.read(key) is None

    def test_a_released_claim_is_not_completed(self, hold, store, key):
        hold("a")
        store.release(key, owner="a")

        assert not store.complete(key, owner="a", result=1, remember_seconds=60)
        assert store.read(key) is None

    @pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()], ids=["nan", "set", "object"])
    def test_a_result_that_is_not_json_changes_nothing(self, hold, store, key, value):
        hold("a")

        with pytest.raises(TypeError, match="is not JSON"):
            store.complete(key, owner="a", result={"value": value}, remember_seconds=60)

        assert store.read(key).state == "held"

    @pytest.mark.parametrize(
        "result",
        [
            None,
            False,
            0,
            -0.1,
            1e300,
            2**70,
            "",
            "snow \u2603 \U0001f600",
            "nul \0 and half a pair \ud800",
            [],
            {},
            {"b": [None, {"a": True}], "": "empty"},
            "x" * 1_000_000,
        ],
        ids=lambda value: repr(value)[:20].encode("ascii", "replace").decode(),
    )
    def test_a_result_comes_back_as_it_was(self, hold, store, key, result):
        hold("a")

        assert store.complete(key, owner="a", result=result, remember_seconds=60)
        for found in (store.read(key).result, hold("b").claim.result):
            assert found == result
            assert type(found) is type(result)


class TestRelease:
    def test_the_claim_is_free_for_others(self, hold, store, key):
        first = hold("a").claim

        assert store.release(key, owner="a")
        assert store.read(key) is None
        second = hold("b")
        assert second.is_granted
        assert second.claim.fence > first.fence

    def test_it_succeeds_after_a_lease_that_nobody_took(self, hold, store, key):
        hold("a", lease_seconds=SHORT_SECONDS)
        has_ended(store, key)

        assert store.release(key, owner="a")

    def test_the_same_owner_may_repeat_it(self, hold, store, key):
        hold("a")
        store.release(key, owner="a")

        assert store.release(key, owner="a")
        assert not store.renew(key, owner="a", lease_seconds=60)
        assert store.read(key) is None

    def test_the_same_owner_can_take_it_anew(self, hold, store, key):
        first = hold("a").claim
        store.release(key, owner="a")

        again = hold("a")

        assert again.is_granted
        assert again.claim.fence > first.fence

    def test_what_is_done_stays_done(self, hold, store, key):
        hold("a")
        store.complete(key, owner="a", result=1, remember_seconds=60)

        assert not store.release(key, owner="a")
        assert store.read(key).state == "done"

    def test_a_free_claim_is_not_released(self, store, key):
        assert not store.release(key, owner="a")


# What an owner may try; each must change nothing when the claim is somebody else's.
LATE = {
    "renew": lambda store, key, owner: store.renew(key, owner=owner, lease_seconds=1000),
    "complete": lambda store, key, owner: store.complete(
        key, owner=owner, result="late", remember_seconds=1000
    ),
    "release": lambda store, key, owner: store.release(key, owner=owner),
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
class TestSomebodyElse:
    def test_a_late_owner_does_not_change_the_claim_of_the_next(self, hold, store, key, late):
        hold("a", lease_seconds=SHORT_SECONDS)
        has_ended(store, key)
        taken = hold("b", lease_seconds=60).claim

        assert not late(store, key, "a")

        now = store.read(key)
        assert (now.state, now.owner, now.fence, now.result) == ("held", "b", taken.fence, None)
        assert now.expires_in_seconds <= 60

    def test_a_late_owner_does_not_change_what_the_next_has_done(self, hold, store, key, late):
        hold("a", lease_seconds=SHORT_SECONDS)
        has_ended(store, key)
        hold("b")
        store.complete(key, owner="b", result="first", remember_seconds=60)

        assert not late(store, key, "a")

        now = store.read(key)
        assert (now.state, now.owner, now.result) == ("done", "b", "first")
        assert now.expires_in_seconds <= 60

    def test_a_late_owner_does_not_take_back_what_the_next_has_released(self, hold, store, key, late):
        hold("a", lease_seconds=SHORT_SECONDS)
        has_ended(store, key)
        hold("b")
        store.release(key, owner="b")

        assert not late(store, key, "a")
        assert store.read(key) is None

    def test_an_owner_whose_claim_a_person_has_freed_changes_nothing(self, hold, store, key, late):
        hold("a")
        store.force_release(key)

        assert not late(store, key, "a")
        assert store.read(key) is None


class TestForceRelease:
    def test_a_held_claim_is_freed_and_returned(self, hold, store, key):
        held = hold("a", task="one").claim

        freed = store.force_release(key)

        assert (freed.owner, freed.holder, freed.fence) == ("a", {"task": "one"}, held.fence)
        assert store.read(key) is None
        assert hold("b").claim.fence > held.fence

    def test_what_is_done_is_freed_and_returned(self, hold, store, key):
        hold("a")
        store.complete(key, owner="a", result="paid", remember_seconds=60)

        freed = store.force_release(key)

        assert (freed.state, freed.result) == ("done", "paid")
        assert hold("b").is_granted

    def test_a_free_claim_gives_nothing(self, hold, store, key):
        hold("a", lease_seconds=SHORT_SECONDS)
        has_ended(store, key)

        assert store.force_release(key) is None
        assert store.force_release(key + " never taken") is None


class TestRead:
    def test_it_does_not_count_as_a_duplicate(self, hold, store, key):
        hold("a")

        store.read(key)

        assert store.read(key).duplicates == 0

    def test_a_key_that_was_never_taken_is_free(self, store, key):
        assert store.read(key) is None


class TestFence:
    def test_it_grows_whatever_ended_the_claim_before(self, hold, store, key):
        fences = [hold("a").claim.fence]
        store.release(key, owner="a")
        fences.append(hold("b").claim.fence)
        store.force_release(key)
        fences.append(hold("c", lease_seconds=SHORT_SECONDS).claim.fence)
        has_ended(store, key)
        fences.append(hold("d").claim.fence)
        store.complete(key, owner="d", result=None, remember_seconds=SHORT_SECONDS)
        has_ended(store, key)
        fences.append(hold("e").claim.fence)

        assert fences == sorted(set(fences))
        assert all(0 < fence < 2**53 for fence in fences)
