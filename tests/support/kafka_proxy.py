"""A TCP proxy in front of one broker that loses, delays and holds back single Kafka messages.

It reads frames only: a length of 4 bytes; of a request then API key, version and correlation id;
of an answer the correlation id. It rewrites the broker's address where an answer tells it, so that
clients stay on the proxy: host and port lie together, and only the port differs, so no length
changes. TLS it cannot read.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, Self

from support.tcp_relay import relayed

HOST = "127.0.0.1"
_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")
_ANSWER = struct.Struct(">i")
_CONNECT_SECONDS = 10.0


class Api(IntEnum):
    """The API keys that the tests name, of the protocol's."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    HEARTBEAT = 12
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CLUSTER = 60


_WITH_ADDRESSES = {Api.METADATA, Api.FIND_COORDINATOR, Api.DESCRIBE_CLUSTER}


@dataclass
class Fault:
    """What befalls the next `left` requests of an API, or their answers.

    `landed` has, for each time it struck, what the proxy's witness said at that moment; `ended`
    counts those that are over: a delayed answer came or nobody waits for it any more, a
    connection was cut.
    """

    api: Api
    kind: Literal["drop", "delay", "hold"]
    left: int
    seconds: float = 0.0
    landed: list[Any] = field(default_factory=list)
    ended: int = 0
    held: list[bytes] = field(default_factory=list)


class KafkaProxy:
    """Listens at `bootstrap` while entered; `witness` says what goes on when a fault strikes."""

    def __init__(self, broker: str, witness: Callable[[], Any] = lambda: None) -> None:
        self._broker_port = int(broker.rpartition(":")[2])
        self._witness = witness
        self._faults: list[Fault] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, HOST, 0))
        port = self._server.sockets[0].getsockname()[1]
        self.bootstrap = f"{HOST}:{port}"
        self._addresses = _address(self._broker_port), _address(port)
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def drop_answers(self, api: Api, times: int = 1) -> Fault:
        """The broker gets the next requests; instead of an answer the connection is cut."""
        return self._add(Fault(api, "drop", times))

    def delay_answers(self, api: Api, seconds: float, times: int = 1) -> Fault:
        """The next answers, and all behind them on their connection, come so much later."""
        return self._add(Fault(api, "delay", times, seconds))

    def hold_requests(self, api: Api, times: int = 1) -> Fault:
        """The next requests stay here until `release`; their connections are cut."""
        return self._add(Fault(api, "hold", times))

    def release(self, fault: Fault) -> list[bytes]:
        """Deliver what is held after all; the broker's answers, behind the correlation id."""
        held, fault.held = fault.held, []
        return [self._run(self._deliver(request)) for request in held]

    def _add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def _take(self, api: int) -> Fault | None:
        for fault in self._faults:
            if fault.api == api and fault.left:
                fault.left -= 1
                return fault
        return None

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            broker, to_broker = await asyncio.open_connection(HOST, self._broker_port)
        except OSError:
            to_client.close()
            return
        asked: dict[int, tuple[int, Fault | None]] = {}
        requests = self._requests(client, to_broker, asked)
        await relayed(requests, self._answers(broker, to_client, asked), to_client, to_broker)
        for _, fault in asked.values():  # these answers are lost with the connection
            if fault is not None:
                self._strike(fault)
                fault.ended += 1

    async def _requests(
        self,
        client: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
        asked: dict[int, tuple[int, Fault | None]],
    ) -> None:
        """Until the client goes, or a request is held."""
        while True:
            request = await _frame(client)
            api, _, correlation = _REQUEST.unpack_from(request)
            fault = self._take(api)
            if fault is not None and fault.kind == "hold":
                fault.held.append(request)
                self._strike(fault)
                fault.ended += 1
                return
            asked[correlation] = api, fault
            await _send(to_broker, request)

    async def _answers(
        self,
        broker: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        asked: dict[int, tuple[int, Fault | None]],
    ) -> None:
        """Until the broker goes, or an answer is dropped."""
        while True:
            answer = await _frame(broker)
            (correlation,) = _ANSWER.unpack_from(answer)
            api, fault = asked.pop(correlation)
            if fault is not None:
                await self._befall(fault)
                if fault.kind == "drop":
                    return
            if api in _WITH_ADDRESSES:
                answer = answer.replace(*self._addresses)
            await _send(to_client, answer)

    async def _befall(self, fault: Fault) -> None:
        self._strike(fault)
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            fault.ended += 1

    def _strike(self, fault: Fault) -> None:
        fault.landed.append(self._witness())

    async def _deliver(self, request: bytes) -> bytes:
        broker, to_broker = await asyncio.open_connection(HOST, self._broker_port)
        try:
            await _send(to_broker, request)
            return (await _frame(broker))[_ANSWER.size :]
        finally:
            to_broker.close()

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _run(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(_CONNECT_SECONDS)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return await reader.readexactly(length)


async def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(_LENGTH.pack(len(frame)) + frame)
    await writer.drain()


def _address(port: int) -> bytes:
    return HOST.encode() + struct.pack(">i", port)
