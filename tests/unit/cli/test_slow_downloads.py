"""A body that comes slowly is taken whole; one that does not come at all is given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streams.cli import api_client
from streams.cli.api_client import NoAnswer, download

MOST_SECONDS = 0.3
PIECE = b"x" * 1024


class Slow(BaseHTTPRequestHandler):
    """Sends a body for longer than a call may take, or, at `/silent`, none."""

    server: Server

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if self.path == "/silent":
            self.server.ended.wait(60)
            return
        began = time.monotonic()
        while time.monotonic() - began < 3 * MOST_SECONDS:
            self.wfile.write(PIECE)
            self.server.sent += len(PIECE)
            self.server.ended.wait(0.01)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    sent = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Slow)
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(api_client, "ANSWERED_WITHIN_SECONDS", MOST_SECONDS)
    with Server() as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.ended.set()
        found.shutdown()


def test_a_body_that_comes_for_longer_than_another_call_may_take_is_taken(server: Server) -> None:
    assert len(download(server.url, "token", "/v1/jobs/job_a/artifacts/art")) == server.sent


def test_a_body_that_does_not_come_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_client, "_SILENT_SECONDS", 0.05)
    with pytest.raises(NoAnswer):
        download(server.url, "token", "/silent")
