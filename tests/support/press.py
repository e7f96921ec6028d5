"""A service that counts its calls under way, and an application whose jobs call it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import MSG_DONTWAIT, MSG_PEEK
from threading import Event, Lock, Thread
from typing import Any

import aiohttp

from streams import App, Context, Retry

URL = "PRESS_URL"
"""The setting that tells the application where the service is."""
TARGET = "support.press:app"
_LOOK_SECONDS = 0.05

app = App("press")
app.tool("press:print", key_lifetime=3600)


async def print_it(idempotency_key: str) -> None:
    await post(idempotency_key)


async def post(what: str) -> None:
    async with aiohttp.ClientSession() as http, http.post(os.environ[URL], data=what) as answer:
        answer.raise_for_status()


@app.job("letter", retry=Retry(max_attempts=20, backoff=(0.2,)))
async def letter(ctx: Context) -> None:
    await ctx.effect("press:print", print_it, key="letter")


@app.job("page", retry=Retry(max_attempts=20, backoff=(0.2,)))
async def page(ctx: Context) -> None:
    await ctx.step("set", post, "a page", model="press-1")


class Press(ThreadingHTTPServer):
    """`most` is how many calls were under way at once; `now` are those that are.

    They are answered while the `gate` is open. A call ends, too, when its caller dies.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.most = self.now = 0
        self.gate = Event()
        self._lock = Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    @contextmanager
    def under_way(self) -> Iterator[None]:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            yield
        finally:
            with self._lock:
                self.now -= 1


class _Handler(BaseHTTPRequestHandler):
    server: Press

    def do_POST(self) -> None:
        with self.server.under_way():
            self.rfile.read(int(self.headers["Content-Length"]))
            while not self.server.gate.wait(_LOOK_SECONDS):
                if self._caller_is_gone():
                    return
            time.sleep(_LOOK_SECONDS)  # others may come meanwhile
        self.send_response(200)
        self.end_headers()

    def _caller_is_gone(self) -> bool:
        try:
            return not self.connection.recv(1, MSG_PEEK | MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Press]:
    """A press that answers while the block runs."""
    press = Press()
    Thread(target=press.serve_forever, daemon=True).start()
    try:
        yield press
    finally:
        press.shutdown()
        press.server_close()
