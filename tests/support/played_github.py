"""GitHub's REST API as far as the example `ci_triage` calls it, played by a test."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.conditions import PATIENCE_SECONDS

FAILED = {1: "lint", 2: "tests"}
"""The jobs of each workflow run that failed, by their ids."""


class PlayedGitHub(ThreadingHTTPServer):
    """Keeps the comments that are posted, and answers no post before `let_go` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: list[str] = []
        self.let_go = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: PlayedGitHub

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.endswith("/comments"):
            self._send([{"id": n, "body": body} for n, body in enumerate(self.server.comments)])
        elif path.endswith("/logs"):
            self._send(f"begun\nan error in job {path.split('/')[-2]}\nended")
        else:
            jobs = [{"id": n, "name": name, "conclusion": "failure"} for n, name in FAILED.items()]
            self._send({"jobs": [*jobs, {"id": 3, "name": "docs", "conclusion": "success"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        self.server.comments.append(body)
        self.server.let_go.wait(PATIENCE_SECONDS)
        with suppress(ConnectionError):  # whoever waited for the answer may be gone
            self._send({"id": len(self.server.comments) - 1})

    def _send(self, answer: Any) -> None:
        text = isinstance(answer, str)
        body = answer.encode() if text else json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain" if text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


@contextmanager
def played_github() -> Iterator[PlayedGitHub]:
    """Let it answer; at the end nothing waits for an answer any more."""
    with PlayedGitHub() as github:
        threading.Thread(target=github.serve_forever, daemon=True).start()
        try:
            yield github
        finally:
            github.let_go.set()
            github.shutdown()
