"""A relay between a client and a server that cuts the line in the middle of what the client sends."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

BUFFER_BYTES = 4096


class CuttingRelay:
    """Forwards connections until so many bytes have gone to the server; then it is gone for good.

    Args:
        server_port: where the server listens on this machine.
        cut_after_bytes: how much reaches the server; None never cuts.
    """

    def __init__(self, server_port: int, *, cut_after_bytes: int | None) -> None:
        self.server_port = server_port
        self.was_cut = False
        self._left = cut_after_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = {self._listener}
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def __enter__(self) -> CuttingRelay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def _accept(self) -> None:
        try:
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server_port))
                self._open |= {client, server}
                threading.Thread(target=self._forward, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client, False), daemon=True).start()
        except OSError:  # closed
            return

    def _forward(self, source: socket.socket, target: socket.socket, is_counted: bool) -> None:
        try:
            while data := source.recv(BUFFER_BYTES):
                if is_counted and self._left is not None:
                    data, whole = data[: self._left], len(data)
                    self._left -= len(data)
                    target.sendall(data)
                    if len(data) < whole or self._left == 0:
                        self.was_cut = True
                        self._close()
                        return
                else:
                    target.sendall(data)
        except OSError:  # the other side is gone
            return

    def _close(self) -> None:
        for item in self._open:
            with suppress(OSError):  # not connected
                item.shutdown(socket.SHUT_RDWR)
            item.close()
