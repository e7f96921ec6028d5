"""Reads answers from a connection whose receiver must not keep the event loop busy.

aiohttp waits for the final answer however many interim ones (102, 103) precede it. It parses all
that was read before any other connection gets its turn, and goes on while nobody waits for it. And
it forgets a head that came in one piece with bytes that it cannot parse, such as the body of a 204.
"""

from __future__ import annotations

import re
from typing import Any

from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import StreamReader

_MOST_HEADS = 11
"""Ten interim answers and the final one."""
_PARSED_AT_ONCE = 4_096
"""Bytes; a head may have 18 of them, and one read brings 256,000."""
_END = re.compile(rb"\n\r?\n")
"""The end of a head."""
_REST = re.compile(rb"\r?\n")
"""What may come of that end at the beginning of a piece, if the end came in two."""


class BoundedProtocol(ResponseHandler):
    """Ends a connection that brings more than eleven heads after one request, or more than answers.

    `answered` says whether any byte came since the request was made. Each head is parsed on its
    own, so that it counts whatever follows it.
    """

    answered = False
    _heads = 0
    _final = False

    def set_response_params(self, **params: Any) -> None:
        """Begin to read the answer to a request."""
        self.answered, self._heads, self._final = False, 0, False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if data and self._final and self._payload is not None and self._payload.is_eof():
            self.close()  # or it would be taken for the answer to the next request
            return
        self.answered = self.answered or bool(data)
        at = self._parse(data, 0)
        while at < len(data) and self.is_connected():  # a parser that failed gets nothing more
            at = self._parse(data, at)
        broken, body = self.exception(), self._payload
        if broken is not None and body is not None and not body.is_eof():
            body.set_exception(broken)  # or whoever reads it waits for ever

    def _parse(self, data: bytes, at: int) -> int:
        """Parse a piece of the data; returns where the next one begins."""
        end = min(at + _PARSED_AT_ONCE, len(data))
        if not self._final and (head := _REST.match(data, at) or _END.search(data, at, end)):
            end = head.end()
        piece = data[at:end]
        super().data_received(piece)
        return at + len(piece)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take in a head with its body."""
        self._heads += 1
        self._final = data[0].code >= 200
        if self._heads <= _MOST_HEADS:
            super().feed_data(data, size)
        elif self._heads == _MOST_HEADS + 1:
            self.abort()  # first, since it forgets the exception
            self.set_exception(HttpProcessingError(message="too many answers to one request"))
