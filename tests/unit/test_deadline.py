"""The deadline of a publish: every socket operation of its thread gets what is left of it, and no more."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError

from taskyard.transport.deadline import DeadlineConnection, deadline, remaining_seconds


@pytest.fixture
def silent_server():
    """A server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextlib.contextmanager
def connected(port, *, socket_timeout=30.0):
    """A connection whose hand-shake is over, as in a pool."""
    connection = DeadlineConnection(host="127.0.0.1", port=port, socket_timeout=socket_timeout)
    connection._sock = connection._connect()
    connection._parser.on_connect(connection)
    try:
        yield connection
    finally:
        connection.disconnect()


def ask(connection):
    connection.send_command("PING")
    return connection.read_response()


def test_without_one_nothing_is_bounded():
    assert remaining_seconds() is None


def test_it_runs_out():
    with deadline(10):
        assert 9 < remaining_seconds() <= 10
    with deadline(-1):
        assert remaining_seconds() < 0
    assert remaining_seconds() is None


def test_an_inner_one_cannot_lengthen_an_outer_one():
    with deadline(1), deadline(100):
        assert remaining_seconds() <= 1


def test_an_inner_one_can_shorten_an_outer_one_and_is_gone_afterwards():
    with deadline(100):
        with deadline(1):
            assert remaining_seconds() <= 1
        assert remaining_seconds() > 90


def test_it_is_gone_after_an_error():
    with pytest.raises(KeyError), deadline(1):
        raise KeyError("x")

    assert remaining_seconds() is None


def test_a_read_from_a_silent_server_ends_at_the_deadline(silent_server):
    with connected(silent_server) as connection:
        started = time.monotonic()

        with deadline(0.2), pytest.raises(RedisTimeoutError):
            ask(connection)

        assert 0.1 < time.monotonic() - started < 2


def test_after_it_nothing_is_sent(silent_server):
    with connected(silent_server) as connection, deadline(-1):
        with pytest.raises(RedisTimeoutError, match="The publish budget is used up"):
            connection.send_command("PING")

        assert connection._sock is None


def test_after_it_no_connection_is_made(silent_server):
    connection = DeadlineConnection(host="127.0.0.1", port=silent_server)

    with deadline(-1), pytest.raises(RedisTimeoutError, match="The publish budget is used up"):
        connection._connect()


def test_a_shorter_timeout_of_the_connection_stands(silent_server):
    with connected(silent_server, socket_timeout=0.1) as connection:
        started = time.monotonic()

        with deadline(30), pytest.raises(RedisTimeoutError):
            ask(connection)

        assert time.monotonic() - started < 2


def test_the_next_user_of_the_connection_has_its_own_timeout_again(silent_server):
    with connected(silent_server, socket_timeout=30.0) as connection:
        with deadline(5):
            connection.send_command("PING")
            assert connection._sock.gettimeout() <= 5

        connection.send_command("PING")

        assert connection._sock.gettimeout() == 30.0


def test_the_time_to_connect_is_set_back(silent_server):
    connection = DeadlineConnection(host="127.0.0.1", port=silent_server, socket_connect_timeout=7.0)

    with deadline(1):
        connection._connect().close()

    assert connection.socket_connect_timeout == 7.0
