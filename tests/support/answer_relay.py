"""A relay between a client and a server that loses an answer: it has happened, and nobody says so."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

BUFFER_BYTES = 65536


class AnswerRelay:
    """Forwards connections; after `lose_next_answer`, the next answer ends its connection instead.

    Args:
        server_port: where the server listens on this machine.
    """

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.lost = 0
        self._is_to_lose = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return self._listener.getsockname()[1]

    def lose_next_answer(self) -> None:
        self._is_to_lose = True

    def __enter__(self) -> AnswerRelay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for item in self._open:
            _end(item)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server_port))
                self._open += [client, server]
                for source, target, is_answer in ((client, server, False), (server, client, True)):
                    threading.Thread(
                        target=self._forward, args=(source, target, is_answer), daemon=True
                    ).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):  # the other side is gone
            while data := source.recv(BUFFER_BYTES):
                if is_answer and self._is_to_lose:
                    self._is_to_lose = False
                    self.lost += 1
                    break
                target.sendall(data)
        _end(source)
        _end(target)


def _end(item: socket.socket) -> None:
    with suppress(OSError):  # not connected
        item.shutdown(socket.SHUT_RDWR)
    item.close()
