"""Reads a stream of the operator's API: server-sent events, from the last one on after a break."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self, TypeVar

import orjson
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, InvalidURL

from streams.cli.api_client import NoAnswer, NotReached, answer_of

T = TypeVar("T")

_SILENT_SECONDS = 40.0
"""A stream that lives sends something each 15 s."""
_TIMEOUT = ClientTimeout(total=None, connect=10, sock_read=_SILENT_SECONDS)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event, with its JSON."""

    event: str
    data: dict[str, Any]


class EventStream:
    """One stream; `read` connects anew, from the last id on. Use it as a context manager."""

    def __init__(self, url: str, token: str, path: str) -> None:
        self._url = url
        self._where = url.rstrip("/") + path
        self._token = token
        self._id: str | None = None
        self._runner = asyncio.Runner()
        self._session: ClientSession | None = None

    def __enter__(self) -> Self:
        self._runner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._session is not None:
            self._runner.run(self._session.close())
        self._runner.__exit__(None, None, None)

    def read(self) -> Iterator[StreamEvent]:
        """Yield events until the stream ends; an empty `end` if all was read before.

        Raises:
            NoAnswer: the stream broke, or cannot be had now; call `read` again.
            CallFailed: the API refuses it.
        """
        answer = self._run(self._connect())
        try:
            if answer.status == HTTPStatus.NO_CONTENT:
                yield StreamEvent("end", {})
                return
            if answer.status != HTTPStatus.OK:
                answer_of(self._url, answer.status, self._run(answer.read()))
            rest = b""
            while piece := self._run(answer.content.readany()):
                *blocks, rest = (rest + piece).split(b"\n\n")
                yield from filter(None, map(self._event, blocks))
        finally:
            answer.close()

    async def _connect(self) -> ClientResponse:
        if self._session is None:
            headers = {"Authorization": f"Bearer {self._token}"}
            self._session = ClientSession(headers=headers, timeout=_TIMEOUT)
        headers = {} if self._id is None else {"Last-Event-ID": self._id}
        return await self._session.get(self._where, headers=headers, allow_redirects=False)

    def _run(self, waiting: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await waiting

        try:
            return self._runner.run(awaited())
        except (OSError, InvalidURL) as error:
            raise NotReached(f"no operator's API answers at {self._url} ({error})") from error
        except (ClientError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise NoAnswer(f"the stream of {self._url} broke off ({why})") from error

    def _event(self, block: bytes) -> StreamEvent | None:
        """The event of a block, whose id is kept; None for a block without one."""
        fields = dict(
            line.partition(b": ")[::2] for line in block.split(b"\n") if not line.startswith(b":")
        )
        if b"id" in fields:
            self._id = fields[b"id"].decode()
        if b"data" not in fields:
            return None
        return StreamEvent(fields[b"event"].decode(), orjson.loads(fields[b"data"]))
