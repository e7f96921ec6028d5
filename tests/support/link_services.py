"""What the server of a link needs beside it, in memory, and a client that speaks frames."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

from streams.link.access import NotAdmitted
from streams.link.grant import Grant
from streams.link.listening import Listening
from streams.link.owner import Owner
from streams.link.requests import Connection, Request
from streams.link.server import LinkServer
from streams.serde.link import frames
from streams.serde.link.messages import Done, FromOwner, FromWorker
from streams.state.overlay import Overlay


class Tokens:
    """`Access` of a table of tokens."""

    def __init__(self, **grants: Grant) -> None:
        self.grants = grants

    def authenticate(self, authorization: str | None, remote: str | None) -> Grant | NotAdmitted:
        token = (authorization or "").removeprefix("Bearer ")
        return self.grants.get(token) or NotAdmitted(401, "the token sent is not known here")

    def is_valid(self, grant: Grant) -> bool:
        return grant in self.grants.values()


class Echo:
    """`Answers` that says of each request that it is done; `ended` are connections that closed."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.connections: list[Connection] = []

    def ask(self, connection: Connection, request: Request) -> None:
        self.connections.append(connection)
        connection.send(Done(request.request))

    def closed(self, connection: Connection) -> None:
        self.ended.append(connection.worker_id)


class InMemory:
    """`Services` of a server."""

    def __init__(self, access: Tokens | None = None) -> None:
        self.access = access or Tokens(t=Grant("", "all"))
        self.answering = Echo()
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def opened(self, partition: int, stores: Mapping[str, Overlay]) -> None:
        self.calls.append(f"opened {partition}")

    def closing(self, partition: int) -> None:
        self.calls.append(f"closing {partition}")

    async def keep_up(self) -> None:
        """Nothing comes up."""

    async def close(self) -> None:
        self.calls.append("close")

    def stop(self) -> None:
        self.calls.append("stop")


@contextmanager
def serving(
    owner: Owner, services: InMemory | None = None, place: Listening | None = None
) -> Iterator[LinkServer]:
    """A server that listens within the block."""
    failures: list[Exception] = []
    beside = services or InMemory()
    server = LinkServer(owner, lambda _: beside, place or Listening("127.0.0.1", 0))
    server.start(failures.append)
    try:
        yield server
    finally:
        server.stop()
    assert failures == []


class Client:
    """A worker's end of a connection; `left` is what was received and not yet asked for."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.socket = socket
        self._left: list[FromOwner] = []

    async def send(self, *messages: FromWorker) -> None:
        await self.socket.send_str(frames.frame(messages).decode())

    async def next(self) -> FromOwner | None:
        """The next message; None once the owner has closed the connection."""
        while not self._left:
            message = await self.socket.receive()
            if message.type is not WSMsgType.TEXT:
                return None
            self._left += frames.from_owner(message.data)
        return self._left.pop(0)

    async def until(self, is_it: Callable[[FromOwner], bool]) -> FromOwner:
        """The next message of a kind."""
        while (message := await self.next()) is not None:
            if is_it(message):
                return message
        raise AssertionError("the connection was closed")


@asynccontextmanager
async def dialed(
    port: int, token: str = "t", tls: ssl.SSLContext | None = None, *, autoping: bool = True
) -> AsyncIterator[Client]:
    """A connection to a server on this machine."""
    scheme = "ws" if tls is None else "wss"
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{scheme}://127.0.0.1:{port}/v1/link"
    async with (
        ClientSession() as session,
        session.ws_connect(
            url, headers=headers, ssl=tls or True, max_msg_size=0, autoping=autoping
        ) as socket,
    ):
        yield Client(socket)
