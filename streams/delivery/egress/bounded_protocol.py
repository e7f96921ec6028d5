"""Reads answers from a connection whose receiver must not keep the event loop busy.

aiohttp waits for the final answer however many interim ones (102, 103) precede it. It parses all
that was read before any other connection gets its turn, and goes on while nobody waits for it.
"""

from __future__ import annotations

from typing import Any

from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import StreamReader

_MOST_HEADS = 11
"""Ten interim answers and the final one."""
_PARSED_AT_ONCE = 4_096
"""Bytes; a head may have 18 of them, and one read brings 256,000."""


class BoundedProtocol(ResponseHandler):
    """Aborts a connection that brings more than eleven heads after one request."""

    _heads = 0

    def set_response_params(self, **params: Any) -> None:
        """Begin to read the answer to a request."""
        self._heads = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        super().data_received(data[:_PARSED_AT_ONCE])
        for start in range(_PARSED_AT_ONCE, len(data), _PARSED_AT_ONCE):
            if not self.is_connected():  # a parser that failed must get nothing more
                return
            super().data_received(data[start : start + _PARSED_AT_ONCE])

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take in a head with its body."""
        self._heads += 1
        if self._heads <= _MOST_HEADS:
            super().feed_data(data, size)
        elif self._heads == _MOST_HEADS + 1:
            self.abort()  # first, since it forgets the exception
            self.set_exception(HttpProcessingError(message="too many answers to one request"))
