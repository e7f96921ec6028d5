"""An API for commands: it answers each call as told, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typer.testing import CliRunner, Result


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None


@dataclass
class OperatorApi:
    """A call without an answer is answered 404; the last answer to a call is repeated.

    An answer of bytes is sent as it is, any other as JSON.
    """

    url: str = ""
    etag: str | None = None
    asked: list[Asked] = field(default_factory=list)
    _answers: dict[tuple[str, str], list[tuple[int, Any]]] = field(default_factory=dict)

    def on(self, method: str, path: str, *answers: Any, status: int = 200) -> None:
        """Answer a call with each of `answers` in turn; one may be (status, object)."""
        pairs = [each if isinstance(each, tuple) else (status, each) for each in answers]
        self._answers[method, path] = pairs

    def bodies(self, method: str) -> list[Any]:
        """What was sent with each call of this method."""
        return [each.body for each in self.asked if each.method == method]

    def answer(self, asked: Asked) -> tuple[int, Any]:
        self.asked.append(asked)
        waiting = self._answers.get((asked.method, asked.path.partition("?")[0]))
        if not waiting:
            what = "source" if "/sources/" in asked.path else "tenant"
            what = "endpoint" if "/endpoints/" in asked.path else what
            what = "job" if "/jobs/" in asked.path else what
            return problem(404, f"{what}-unknown")
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]


def problem(status: int, name: str, detail: str = "told by the API") -> tuple[int, Any]:
    """A problem as the API answers it."""
    return status, {"type": f"urn:tidegate:problem:{name}", "detail": detail}


def invoke(api: OperatorApi, group: Any, *arguments: str) -> Result:
    """Run a command of `group` against the API."""
    return CliRunner().invoke(group, [*arguments, "--url", api.url])


@contextmanager
def running() -> Iterator[OperatorApi]:
    """Serve until the block ends."""
    api = OperatorApi()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, found = api.answer(Asked(self.command, self.path, dict(self.headers), raw))
            self.send_response(status)
            if api.etag is not None:
                self.send_header("ETag", api.etag)
            self.end_headers()
            self.wfile.write(found if isinstance(found, bytes) else json.dumps(found).encode())

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield api
    server.shutdown()
    thread.join()
    server.server_close()
