"""Connections to checked addresses alone.

A name is resolved once for each new connection. Every answer is checked, and a few of the checked
addresses are given to aiohttp, which dials them without another look-up; Host header, SNI and the
certificate's check keep the name. The last check is where the socket is made: it sees the very
address that is dialled, so that no way around the look-up (rebinding, an odd spelling, a literal)
leads inside. A pooled connection has passed these checks when it was made, and needs no look-up.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from weakref import WeakSet

from aiohttp import AddrInfoType, ClientRequest, ClientTimeout, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from streams.delivery.egress.bounded_protocol import BoundedProtocol
from streams.delivery.egress.guard import check_addresses, local_addresses
from streams.delivery.egress.lookup import Lookups, Resolve
from streams.delivery.egress.policy import EgressPolicy
from streams.errors import EgressDenied

_MOST_DIALLED = 4
_MOST_KEPT = 512
_IDLE_SECONDS = 4.0
"""Common servers close an idle connection after 5 s: ours is gone before they do."""


@dataclass(slots=True)
class Dial:
    """What one request's way to its receiver was.

    `name` is the one that was looked up, `address` the one that was dialled last: the proxy's, if
    it goes through one (`proxied`). `reached` says that this address took a connection, and
    `connected` that the request may go to its receiver. `anew` demands a connection on which
    nothing was sent before. `waiting` is entered while the tenant waits for Tidegate itself.
    """

    tenant_id: str = ""
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    anew: bool = False
    name: str | None = None
    address: str | None = None
    fresh: bool = False
    proxied: bool = False
    reached: bool = False
    connected: bool = False
    protocol: BoundedProtocol | None = None

    @property
    def was_stale(self) -> bool:
        """Whether a connection from before was used, and brought no byte of an answer."""
        used = None if self.fresh else self.protocol
        return used is not None and not used.answered


DIAL: ContextVar[Dial] = ContextVar("dial")
"""The dial of the request that the current task makes."""


class CheckedConnector(TCPConnector):
    """Dials checked addresses, and reuses a connection only while its receiver keeps it open.

    At most 512 connections are kept open between requests. What is opened beyond them serves one
    request. A connection that its receiver has closed is replaced before anything is sent on it.
    """

    def __init__(self, policy: EgressPolicy, resolve: Resolve, trust: ssl.SSLContext) -> None:
        super().__init__(
            resolver=CheckedResolver(policy, resolve),
            use_dns_cache=False,
            ssl=trust,
            limit=0,
            keepalive_timeout=_IDLE_SECONDS,
            socket_factory=self._socket,
        )
        self._factory = partial[ResponseHandler](self._protocol)  # no public parameter sets it
        self._policy = policy
        self._open: WeakSet[socket.socket] = WeakSet()

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: ClientTimeout,  # noqa: ASYNC109 - aiohttp's
    ) -> Connection:
        """A connection on which nothing was received and that is open as far as is known."""
        dial = DIAL.get()
        dial.proxied = req.proxy is not None
        connection = await super().connect(req, traces, timeout)
        while not dial.fresh and (dial.anew or _is_readable(connection)):
            connection.close()
            connection = await super().connect(req, traces, timeout)
        if len(self._open) > _MOST_KEPT and connection.protocol is not None:
            connection.protocol.force_close()
        dial.connected = True
        if isinstance(connection.protocol, BoundedProtocol):
            dial.protocol = connection.protocol
        dial.address = _peer(connection) or dial.address
        return connection

    def _protocol(self) -> ResponseHandler:
        """Read from a connection that has just been taken."""
        DIAL.get().reached = True
        return BoundedProtocol(self._loop)

    def _socket(self, target: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, (host, port, *_) = target
        dial = DIAL.get()
        dial.fresh, dial.address = True, str(host)
        if self._policy.proxy is None:
            self._check(str(host), int(port))
        made = socket.socket(family, kind, protocol)
        self._open.add(made)
        return made

    def _check(self, address: str, port: int) -> None:
        try:
            check_addresses(address, port, [address], self._policy)
        except EgressDenied as error:  # the dialling code expects OSError alone
            raise PermissionError(errno.EACCES, str(error)) from error


class CheckedResolver(AbstractResolver):
    """Answers addresses that were checked, all of them, or refuses the name."""

    def __init__(self, policy: EgressPolicy, resolve: Resolve) -> None:
        self._policy = policy
        self._lookups = Lookups(resolve)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses to dial, at most four, of IPv6 and IPv4 in turns.

        Raises:
            OSError: the name has no address.
            EgressDenied: one of its addresses is not allowed.
        """
        dial = DIAL.get()
        dial.name = host
        answers = local_addresses(host, self._policy) or await self._lookups.addresses(
            host, dial.tenant_id, dial.waiting
        )
        if not answers:
            raise OSError("the name has no address")
        if self._policy.proxy is None:  # with a proxy, only the proxy's own name is resolved
            check_addresses(host, port, answers, self._policy)
        return [_result(host, address, port) for address in _by_turns(answers)[:_MOST_DIALLED]]

    async def close(self) -> None:
        """Nothing is held."""


def _by_turns(answers: Sequence[str]) -> list[str]:
    first = ":" in answers[0]
    same = [address for address in answers if (":" in address) == first]
    other = [address for address in answers if (":" in address) != first]
    return [address for address in chain(*zip_longest(same, other)) if address]


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=family,
        proto=0,
        flags=socket.AI_NUMERICHOST,
    )


def _is_readable(connection: Connection) -> bool:
    """Whether the other side of an idle connection has closed it, or sent what nobody asked for."""
    known = connection.transport.get_extra_info("socket") if connection.transport else None
    if known is None:
        return True
    poll = select.poll()
    poll.register(known.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _peer(connection: Connection) -> str | None:
    peer = connection.transport.get_extra_info("peername") if connection.transport else None
    return str(peer[0]) if peer else None
