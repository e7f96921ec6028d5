"""An owner of partitions that does what a scenario says: it listens, and applies nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from streams.errors import DecodeError
from streams.serde.link import frames
from streams.serde.link.messages import (
    VERSION,
    Acked,
    Answer,
    Beat,
    FromOwner,
    FromWorker,
    Hello,
    Leased,
    Order,
    Owned,
    Refused,
    Seal,
    Welcome,
)
from streams.serde.records import Lease, Reply, ReplyKind
from support.link_suite.said import Said, Told, come

QUESTIONS = ("claim", "claim_step", "listen", "enqueue", "seal_gather", "read_children")
"""Commands that are acknowledged with their answer."""


@dataclass(frozen=True)
class Terms:
    """What a welcome says of times, in seconds."""

    heartbeat: float = 0.3
    term: float = 10.0
    margin: float = 1.0


@dataclass(eq=False)
class Session:
    """One connection of the worker."""

    socket: web.WebSocketResponse
    authorization: str | None
    hello: Hello | None = None
    beats: list[tuple[Beat, float]] = field(default_factory=list)
    sent: int = 0
    """How many leases went over it."""
    unacknowledged: dict[int, int] = field(default_factory=dict)

    @property
    def boot(self) -> str:
        return self.hello.boot if self.hello else ""

    @property
    def beat(self) -> Beat | None:
        return self.beats[-1][0] if self.beats else None


class ScriptedOwner:
    """Acknowledges each command at once, but for questions, unless it `holds`."""

    def __init__(
        self,
        said: Said,
        name: str,
        owned: Iterable[int],
        terms: Terms,
        refusal: Refused | None = None,
    ) -> None:
        self.holds = False
        self.as_text = True
        self.refusal = refusal
        self.sessions: list[Session] = []
        self.requests: list[FromWorker] = []
        self._said = said
        self._name = name
        self._owned = tuple(owned)
        self._terms = terms
        self._answers: dict[str, Answer] = {}
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """Where it listens, also while it is closed."""
        return self._port

    @property
    def address(self) -> str:
        return f"ws://127.0.0.1:{self._port}"

    @property
    def session(self) -> Session | None:
        """The connection over which the worker was welcomed last, if it is open."""
        welcomed = [each for each in self.sessions if each.hello and not each.socket.closed]
        return welcomed[-1] if welcomed else None

    async def open(self) -> None:
        """Listen, at the same port each time."""
        app = web.Application()
        app.router.add_get("/v1/link", self._connected)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Listen no more, and break all connections."""
        await self.cut()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def cut(self) -> None:
        """Break all connections."""
        for each in self.sessions:
            transport = each.socket._req.transport if each.socket._req else None
            if transport is not None:
                transport.abort()
        await come(lambda: self.session is None, "the connections are broken")

    async def connected(self) -> Session:
        """The connection, once the worker offers slots over it."""
        return await come(
            lambda: self.session if self.session and self.session.beat else None,
            f"{self._name}: a worker that has said hello, and a beat",
        )

    async def connected_for(self, pool: str) -> Session:
        """The connection of the process's worker for a pool, once it offers slots over it."""

        def found() -> Session | None:
            open_ = [s for s in self.sessions if s.hello and s.beat and not s.socket.closed]
            return next((s for s in open_ if s.hello and s.hello.pool == pool), None)

        return await come(found, f"{self._name}: a worker for the pool {pool}")

    async def owns(self, partitions: Iterable[int]) -> None:
        """Say which partitions this owner has from now on."""
        self._owned = tuple(partitions)
        await self.send(Owned(self._owned))

    async def send(self, *messages: FromOwner, to: Session | None = None) -> None:
        """Send messages in one frame, if the worker is connected."""
        session = to or self.session
        if session is not None:
            session.sent += sum(isinstance(each, Leased) for each in messages)
            await self._send(session, frames.frame(messages))

    async def raw(self, text: str) -> None:
        """Send a frame as it is."""
        session = await self.connected()
        await self._send(session, text.encode())

    async def lease(self, lease: Lease, beat: int | None = None, to: Session | None = None) -> None:
        """Hand out a lease, as soon as the worker has room for it."""

        def room() -> int | None:
            session = to or self.session
            if session is None or session.beat is None or session.beat.limit <= session.sent:
                return None
            return session.beat.number

        newest = await come(room, "a worker with a free slot")
        answered = newest if beat is None else beat
        await self.send(Leased(lease.home_partition, answered, lease), to=to)

    async def answer(self, told: Told, kind: ReplyKind, **fields: Any) -> None:
        """Answer a question, and acknowledge it behind that."""
        claim_id = told.body.claim_id
        reply = Reply(told.job_id, told.epoch, claim_id, kind, **fields)
        self._answers[claim_id] = Answer(told.partition, reply)
        await self.send(self._answers[claim_id])
        await self.acknowledge(told.partition)

    async def end_run(self, lease: Lease, kind: ReplyKind, message: str = "") -> None:
        """Tell the worker that a run is over."""
        reply = Reply(lease.job_id, lease.epoch, "", kind, message=message)
        await self.send(Answer(lease.home_partition, reply))

    async def acknowledge(self, *partitions: int, to: Session | None = None) -> None:
        """Acknowledge all that came over the present connection."""
        session = to or self.session
        if session is None:
            return
        came = session.unacknowledged.items()
        numbers = {p: n for p, n in came if not partitions or p in partitions}
        if numbers:
            await self.send(Acked(numbers), to=session)

    async def _connected(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=frames.MAX_FRAME_BYTES)
        await socket.prepare(request)
        session = Session(socket, request.headers.get("Authorization"))
        self.sessions.append(session)
        async for message in socket:
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                break
            try:
                for each in frames.from_worker(message.data):
                    await self._read(session, each)
            except DecodeError as error:
                self._said.faults.append(f"no frame: {error}")
            except ConnectionError:
                break
        return socket

    async def _read(self, session: Session, message: FromWorker) -> None:
        if isinstance(message, Hello):
            await self._greet(session, message)
        elif session.hello is None:
            self._said.faults.append(f"{message} before the hello was answered")
        elif isinstance(message, Beat):
            self._beat(session, message)
        elif isinstance(message, Order):
            await self._order(session, message)
        else:
            self.requests.append(message)

    async def _greet(self, session: Session, hello: Hello) -> None:
        if session.hello is not None:
            self._said.faults.append("hello was said twice")
        if self.refusal is not None:
            await self._send(session, frames.frame([self.refusal]))
            await session.socket.close()
            return
        session.hello = hello
        times = self._terms.heartbeat, self._terms.term, self._terms.margin
        worker_id = f"{hello.pool}:{hello.name}/{hello.boot}"
        welcome = Welcome(VERSION, worker_id, self._name, 8, self._owned, *times)
        await self._send(session, frames.frame([welcome]))

    def _beat(self, session: Session, beat: Beat) -> None:
        own = [s for s in self.sessions if s.boot == session.boot]
        before = max((b.number for s in own for b, _ in s.beats), default=0)
        slots = session.hello.slots if session.hello else 0
        if beat.number <= before:
            self._said.faults.append(f"beat {beat.number} after {before}")
        if beat.limit > session.sent + slots:
            self._said.faults.append(f"{beat} with {session.sent} leases sent and {slots} slots")
        session.beats.append((beat, asyncio.get_running_loop().time()))

    async def _order(self, session: Session, order: Order) -> None:
        told = self._said.add(order, session.boot)
        if order.partition not in self._owned:
            return  # its owner has another name: the worker sends it there
        session.unacknowledged[order.partition] = order.number
        if self.holds:
            return
        if order.kind not in QUESTIONS:
            await self.acknowledge(order.partition, to=session)
        elif told.body.claim_id in self._answers:
            await self.send(self._answers[told.body.claim_id], to=session)
            await self.acknowledge(order.partition, to=session)

    async def _send(self, session: Session, frame: bytes) -> None:
        try:
            if self.as_text:
                await session.socket.send_str(frame.decode())
            else:
                await session.socket.send_bytes(frame)
        except ConnectionError:
            pass


__all__ = ["ScriptedOwner", "Seal", "Session", "Terms"]
