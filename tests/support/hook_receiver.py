"""A receiver of outgoing webhooks in threads of its own, which answers as a test tells it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from support.conditions import PATIENCE_SECONDS


class HookReceiver(ThreadingHTTPServer):
    """Remembers requests; answers each by the next of `answers`, then by 200.

    An answer of 0 is a 200 that comes only after `let_go` is set.
    """

    daemon_threads = True

    def __init__(self, *answers: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.let_go = threading.Event()
        self.got: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.got]

    def answer(self, headers: dict[str, str], body: bytes) -> int | None:
        """The status of the answer to a request; None closes the connection without one."""
        status = self.answers.pop(0) if self.answers else 200
        self.got.append((headers, body))
        if status:
            return status
        return 200 if self.let_go.wait(PATIENCE_SECONDS) else None


class _Handler(BaseHTTPRequestHandler):
    server: HookReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answer({k.lower(): v for k, v in self.headers.items()}, body)
        if status is None:
            return
        with suppress(ConnectionError):  # who waited for a late answer may be gone
            self._send(status)

    def _send(self, status: int) -> None:
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.server.url)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


R = TypeVar("R", bound=HookReceiver)


@contextmanager
def serving(receiver: R) -> Iterator[R]:
    """Let it answer; at the end nothing waits for an answer any more."""
    with receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        try:
            yield receiver
        finally:
            receiver.let_go.set()
            receiver.shutdown()
