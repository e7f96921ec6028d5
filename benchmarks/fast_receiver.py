"""A receiver that costs little: it answers every POST, or never those to `/hang`.

    python benchmarks/fast_receiver.py PORT

`GET /` answers a JSON object: for each `webhook-id`, when its first POST to `/ok` came, under
`again ` and the id when its last one came if there were more, and under `hang ` and the id when its
last POST to `/hang` came, in seconds since the epoch.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import cast

import uvloop

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ID = re.compile(rb"\r\nwebhook-id: *(\S+)", re.IGNORECASE)
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

HANGING = [f"127.1.{number // 250}.{number % 250 + 1}" for number in range(1_000)]
"""Hosts that are all this machine; connections are counted for each host."""

CAME: dict[str, float] = {}


class Connection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[: end + 2]
            length = _LENGTH.search(head)
            whole = end + 4 + (int(length.group(1)) if length else 0)
            if len(self._data) < whole:
                return
            self._data = self._data[whole:]
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        if head.startswith(b"GET"):
            body = json.dumps(CAME).encode()
            length = str(len(body)).encode()
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\n" + body
            )
            return
        found = _ID.search(head)
        id_ = found.group(1).decode() if found else str(len(CAME))
        if head.startswith(b"POST /hang"):
            CAME[f"hang {id_}"] = time.time()
        else:
            CAME[f"again {id_}" if id_ in CAME else id_] = time.time()
            self._transport.write(_OK)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(
        Connection, ["127.0.0.1", *HANGING], port
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
