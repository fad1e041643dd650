"""What a state store on Redis does when the server or the line to it fails."""

import time

import pytest

from taskyard.errors import StateUnavailableError
from taskyard.state.redis import RedisStore

pytestmark = [pytest.mark.integration, pytest.mark.faults]
TIMEOUT_SECONDS = 1.0

OPERATIONS = {
    "acquire": lambda store: store.acquire("k", owner="a", holder={}, lease_seconds=60),
    "renew": lambda store: store.renew("k", owner="a", lease_seconds=60),
    "complete": lambda store: store.complete("k", owner="a", result=1, remember_seconds=60),
    "release": lambda store: store.release("k", owner="a"),
    "read": lambda store: store.read("k"),
    "force_release": lambda store: store.force_release("k"),
    "find": lambda store: store.find("k"),
    "put_latest": lambda store: store.put_latest("k", "v", remember_seconds=60),
    "read_latest": lambda store: store.read_latest("k"),
    "clear_latest": lambda store: store.clear_latest("k", "v"),
    "ping": lambda store: store.ping(),
}


def make_store(server, *, timeout_seconds=TIMEOUT_SECONDS, **options):
    return RedisStore(server.url, timeout_seconds=timeout_seconds, **options)


def test_a_server_that_is_away_is_said_to_be_so_by_each_operation(own_valkey):
    store = make_store(own_valkey)
    store.ping()
    own_valkey.kill()

    for operation in OPERATIONS.values():
        with pytest.raises(StateUnavailableError, match=r"127\.0\.0\.1:\d+/0 does not answer: .*refused"):
            operation(store)


def test_a_frozen_server_costs_no_more_than_the_timeout(own_valkey):
    connected, fresh = (make_store(own_valkey, timeout_seconds=0.15) for _ in range(2))
    connected.ping()
    own_valkey.freeze()

    for store in (connected, fresh):
        for operation in OPERATIONS.values():
            begun = time.monotonic()
            with pytest.raises(StateUnavailableError, match="does not answer: Timeout"):
                operation(store)
            assert time.monotonic() - begun < 1.0

    own_valkey.thaw()
    assert connected.acquire("after", owner="b", holder={}, lease_seconds=60).is_granted


def test_claims_survive_a_kill_of_the_server(own_broker):
    store = make_store(own_broker)
    held = store.acquire("k", owner="a", holder={"task": "one"}, lease_seconds=60).claim
    store.put_latest("latest", "value", remember_seconds=60)

    own_broker.kill()
    own_broker.restart()

    assert store.read("k").fence == held.fence
    assert not store.acquire("k", owner="b", holder={}, lease_seconds=60).is_granted
    assert store.complete("k", owner="a", result=1, remember_seconds=60)
    assert store.read_latest("latest") == "value"


def test_a_restart_between_two_operations_is_not_noticed(own_broker):
    store = make_store(own_broker)
    for operation in OPERATIONS.values():
        store.ping()
        own_broker.stop()
        own_broker.restart()

        operation(store)


def test_connections_that_the_server_cuts_are_not_noticed(own_valkey):
    store = make_store(own_valkey)
    with own_valkey.client() as client:
        for operation in OPERATIONS.values():
            store.ping()
            assert client.client_kill_filter(_type="normal", skipme=True) >= 1

            operation(store)


def test_scripts_that_the_server_forgets_are_sent_again(own_valkey):
    store = make_store(own_valkey)
    with own_valkey.client() as client:
        for operation in OPERATIONS.values():
            operation(store)
            client.script_flush()

            operation(store)


def test_a_fence_grows_also_after_the_server_has_lost_its_data(own_valkey):
    store = make_store(own_valkey)
    before = store.acquire("k", owner="a", holder={}, lease_seconds=60).claim
    with own_valkey.client() as client:
        client.flushall()

    after = store.acquire("k", owner="b", holder={}, lease_seconds=60).claim

    assert after.fence > before.fence


def test_a_fence_grows_also_where_the_clock_was_set_back(own_valkey):
    store = make_store(own_valkey, prefix="p:")
    tomorrow = store.acquire("k", owner="a", holder={}, lease_seconds=60).claim.fence + 86_400_000_000
    with own_valkey.client() as client:
        client.set("p:taskyard:fence", tomorrow)

    assert store.acquire("other", owner="a", holder={}, lease_seconds=60).claim.fence == tomorrow + 1


def test_a_server_at_its_memory_limit_still_takes_claims(own_valkey):
    store = make_store(own_valkey)
    store.acquire("held", owner="a", holder={}, lease_seconds=60)
    store.acquire("other", owner="a", holder={}, lease_seconds=60)
    with own_valkey.client() as client:
        client.config_set("maxmemory", "1mb")

        assert store.acquire("new", owner="a", holder={}, lease_seconds=60).is_granted
        assert not store.acquire("held", owner="b", holder={}, lease_seconds=60).is_granted
        assert store.renew("held", owner="a", lease_seconds=60)
        assert store.complete("held", owner="a", result=1, remember_seconds=60)
        assert store.release("other", owner="a")


def test_a_refusal_of_the_server_shows_no_password(own_valkey):
    store = RedisStore(own_valkey.url.replace("//", "//user:s3cret@"), timeout_seconds=TIMEOUT_SECONDS)

    with pytest.raises(StateUnavailableError) as caught:
        store.ping()

    assert "refuses: " in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_stores_with_different_prefixes_do_not_touch_each_other(own_valkey):
    one, two = make_store(own_valkey, prefix="one:"), make_store(own_valkey, prefix="two:")
    one.acquire("k", owner="a", holder={}, lease_seconds=60)
    one.put_latest("k", "v", remember_seconds=60)

    assert two.acquire("k", owner="b", holder={}, lease_seconds=60).is_granted
    assert two.read_latest("k") is None
    assert [claim.owner for claim in two.find("")] == ["b"]
    with own_valkey.client() as client:
        assert {name.split(b":")[0] for name in client.keys("*")} == {b"one", b"two"}


def test_the_list_of_held_claims_has_those_that_are_held(own_valkey):
    store = make_store(own_valkey)
    for key in ("renewed", "done", "released", "freed", "ended", "given up long ago"):
        store.acquire(key, owner="a", holder={}, lease_seconds=60)
    store.renew("renewed", owner="a", lease_seconds=120)
    store.complete("done", owner="a", result=1, remember_seconds=60)
    store.release("released", owner="a")
    store.force_release("freed")
    store.acquire("ended", owner="a", holder={}, lease_seconds=0.001)
    with own_valkey.client() as client:
        client.zadd("taskyard:held", {"given up long ago": 1})
        store.acquire("renewed", owner="b", holder={}, lease_seconds=60)
        store.acquire("new", owner="b", holder={}, lease_seconds=60)

        listed = {name.decode(): score for name, score in client.zscan_iter("taskyard:held")}

    assert set(listed) == {"renewed", "new", "ended"}
    assert 50e6 < listed["renewed"] - listed["new"] < 70e6
    assert [claim.key for claim in store.find("", state="held")] == ["renewed", "new"]


def test_nothing_is_kept_for_ever_but_the_fence(own_valkey):
    store = make_store(own_valkey)
    store.acquire("held", owner="a", holder={}, lease_seconds=5)
    store.acquire("done", owner="a", holder={}, lease_seconds=5)
    store.complete("done", owner="a", result=1, remember_seconds=5)
    store.acquire("released", owner="a", holder={}, lease_seconds=5)
    store.release("released", owner="a")
    store.put_latest("latest", "value", remember_seconds=5)

    with own_valkey.client() as client:
        lives = {name.decode(): client.ttl(name) for name in client.keys("*")}

    assert lives.pop("taskyard:fence") == -1
    # a list, which loses what has ended
    assert lives.pop("taskyard:held") == -1
    assert 3600 < lives.pop("taskyard:claim:held") <= 3605
    assert set(lives) == {"taskyard:claim:done", "taskyard:claim:released", "taskyard:latest:latest"}
    assert all(0 < seconds <= 60 for seconds in lives.values())
