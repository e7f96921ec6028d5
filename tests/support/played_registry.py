"""A schema registry with the rules of Confluent's about ids and modes, in memory."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class PlayedRegistry:
    """`versions` by subject and number; `schemas` by id. A given id is taken in IMPORT alone.

    `modes` has the subjects with a mode of their own. With `moved_to`, every answer is a redirect.
    """

    def __init__(self) -> None:
        self.versions: dict[str, dict[int, int]] = {}
        self.schemas: dict[int, str] = {}
        self.modes: dict[str, str] = {}
        self.authorizations: list[str | None] = []
        self.refuse_after: int | None = None
        self.moved_to: str | None = None
        self.url = ""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        match method, parts:
            case "GET", ["subjects", subject, "versions", number]:
                id_ = self.versions.get(subject, {}).get(int(number))
                return (200, {"id": id_, "schema": self.schemas[id_]}) if id_ else (404, {})
            case "GET", ["schemas", "ids", id_]:
                found = self.schemas.get(int(id_))
                return (200, {"schema": found}) if found else (404, {})
            case "GET", ["mode", subject]:
                mode = self.modes.get(subject)
                return (200, {"mode": mode}) if mode else (404, {"error_code": 40409})
            case "PUT", ["mode", subject]:
                self.modes[subject] = body["mode"]
                return 200, body
            case "DELETE", ["mode", subject]:
                return 200, {"mode": self.modes.pop(subject)}
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, body)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _register(self, subject: str, body: Any) -> tuple[int, Any]:
        if self.refuse_after is not None:
            self.refuse_after -= 1
            if self.refuse_after < 0:
                return 500, {"error_code": 50001, "message": "Error in the backend data store"}
        if self.modes.get(subject) != "IMPORT":
            return 422, {"error_code": 42205, "message": f"Subject {subject} is not in import mode"}
        if self.schemas.setdefault(body["id"], body["schema"]) != body["schema"]:
            return 422, {"error_code": 42207, "message": "Overwrite new schema is not permitted"}
        self.versions.setdefault(subject, {})[body["version"]] = body["id"]
        return 200, {"id": body["id"]}


@contextmanager
def played_registry() -> Iterator[PlayedRegistry]:
    registry = PlayedRegistry()

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            registry.authorizations.append(self.headers.get("Authorization"))
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, body = registry.answer(self.command, self.path, json.loads(raw or b"null"))
            told = json.dumps(body).encode()
            self.send_response(302 if registry.moved_to else status)
            if registry.moved_to:
                self.send_header("Location", registry.moved_to + self.path)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = do_PUT = do_POST = do_DELETE = _do

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def readable(text: str) -> str:
    """A terminal's text without its boxes and line breaks."""
    return re.sub(r"[\s│╭╮╰╯─]+", " ", text)
