"""The ports are checked before anything starts; each message names port, purpose and variable."""

import errno
import socket

from taskyard.launch.ports import PortNeed, bind_error, port_problems
from tests.support.ports import free_port


def need(port: int, purpose: str = "the site", variable: str = "TASKYARD_WEB_PORT", host: str = "127.0.0.1"):
    return PortNeed(port, host, purpose, variable)


def listening_socket(host: str = "127.0.0.1") -> socket.socket:
    return socket.create_server((host, 0))


def test_free_ports_are_no_problem():
    assert port_problems([need(free_port())]) == []


def test_a_taken_port_is_named_with_its_purpose_its_variable_and_a_free_one():
    with listening_socket() as server:
        port = server.getsockname()[1]

        [problem] = port_problems([need(port)])

        start, _, example = problem.rpartition("TASKYARD_WEB_PORT=")
        assert start == (
            f"Port {port} on 127.0.0.1 is taken; the site needs it. Stop what listens there, "
            "or set TASKYARD_WEB_PORT to a free port, e.g. "
        )
        assert bind_error("127.0.0.1", int(example.rstrip("."))) is None


def test_all_problems_are_listed_together():
    with listening_socket() as one, listening_socket() as two:
        ports = [one.getsockname()[1], two.getsockname()[1]]

        problems = port_problems([need(ports[0]), need(ports[1], "Flower", "TASKYARD_FLOWER_PORT")])

    assert [f"Port {port} " in problem for port, problem in zip(ports, problems, strict=True)] == [True, True]


def test_a_server_on_all_addresses_takes_the_port_too():
    with listening_socket("0.0.0.0") as server:
        assert len(port_problems([need(server.getsockname()[1])])) == 1


def test_a_port_that_two_parts_want_is_a_problem():
    port = free_port()

    assert port_problems([need(port), need(port, "Flower", "TASKYARD_FLOWER_PORT")]) == [
        f"Port {port} is asked for twice: for the site (TASKYARD_WEB_PORT) and for Flower "
        "(TASKYARD_FLOWER_PORT). Change one of the two."
    ]


def test_connections_that_linger_after_a_stop_do_not_count():
    with listening_socket() as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # the side that closes first waits in TIME_WAIT
        client.close()

    assert bind_error("127.0.0.1", port) is None


def test_an_address_of_another_machine_is_named():
    port = free_port()

    assert port_problems([need(port, host="192.0.2.1")]) == [
        f"Port {port} on 192.0.2.1 cannot be used for the site: EADDRNOTAVAIL. "
        "Set TASKYARD_WEB_PORT, or TASKYARD_HOST to this machine's address."
    ]


def test_a_host_that_does_not_exist_is_an_address_that_is_not_there():
    assert bind_error("no-such-host.invalid", 8000) == errno.EADDRNOTAVAIL
