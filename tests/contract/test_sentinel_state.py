"""A state store behind Sentinel: it finds the primary, and the next one after a failover."""

import subprocess

import pytest
import redis

from taskyard.errors import StateUnavailableError
from taskyard.state.redis import RedisStore
from tests.support import processes
from tests.support.fixtures import running
from tests.support.ports import free_port
from tests.support.servers import RedisServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.faults]
CONFIG = """
port {port}
bind 127.0.0.1
dir {directory}
sentinel monitor main 127.0.0.1 {primary} 1
sentinel down-after-milliseconds main 300
sentinel failover-timeout main 2000
"""


@pytest.fixture
def primary(tmp_path):
    with running(RedisServer(tmp_path / "primary")) as server:
        yield server


@pytest.fixture
def replica(tmp_path, primary):
    with running(RedisServer(tmp_path / "replica")) as server:
        with server.client() as client:
            client.replicaof("127.0.0.1", primary.port)
            wait_until(
                lambda: client.info("replication")["master_link_status"] == "up",
                timeout_seconds=10,
                what="the replica follows",
            )
        yield server


@pytest.fixture
def sentinel_url(tmp_path, primary, replica):
    port = free_port()
    config = tmp_path / "sentinel.conf"
    config.write_text(CONFIG.format(port=port, directory=tmp_path, primary=primary.port))
    process = subprocess.Popen(
        [str(RedisServer.PROGRAM), str(config), "--sentinel"],
        stdout=subprocess.DEVNULL,
        preexec_fn=processes.end_with_tests,
    )
    try:
        with redis.Redis(port=port) as client:
            wait_until(lambda: _replicas(client), timeout_seconds=20, what="Sentinel knows the replica")
        yield f"sentinel://127.0.0.1:{port}/1"
    finally:
        processes.end_tree(process)


def _replicas(client):
    try:
        return client.sentinel_master("main")["num-slaves"]
    except redis.ConnectionError:
        return 0


def test_claims_are_on_the_primary_and_follow_a_failover(primary, sentinel_url):
    store = RedisStore(sentinel_url, sentinel_master="main", timeout_seconds=1.0)
    held = store.acquire("k", owner="a", holder={}, lease_seconds=60).claim
    with redis.Redis(port=primary.port, db=1) as client:
        assert client.exists("taskyard:claim:k")
        assert client.wait(1, 5000) == 1

    primary.kill()

    def answers():
        try:
            return store.read("k")
        except StateUnavailableError:
            return None

    found = wait_until(answers, timeout_seconds=30, what="the store has found the new primary")
    assert found.fence == held.fence
    assert not store.acquire("k", owner="b", holder={}, lease_seconds=60).is_granted
    assert store.release("k", owner="a")
    assert store.acquire("k", owner="b", holder={}, lease_seconds=60).claim.fence > held.fence


def test_a_primary_that_nobody_knows_is_said_to_be_so(sentinel_url):
    store = RedisStore(sentinel_url, sentinel_master="other", timeout_seconds=1.0)

    with pytest.raises(StateUnavailableError, match="No master found for 'other'"):
        store.ping()
