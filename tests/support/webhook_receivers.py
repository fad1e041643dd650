"""Receivers of webhooks that answer as a test wants, and the secret that all of them share."""

from __future__ import annotations

import socket
import threading

SECRET = "a secret of the tests"


class RawServer:
    """Reads one request, sends fixed bytes, closes; for each connection."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/hook?team=7"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.requests.append(connection.recv(65536))
                try:
                    connection.sendall(self.answer)
                except OSError:  # the sender has read enough
                    continue

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


def answer(status: int, *headers: str, body: bytes = b"") -> bytes:
    """Return a whole HTTP answer, for a `RawServer`."""
    lines = [f"HTTP/1.1 {status} Text", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body
