"""Connects a worker's link to owners by WebSockets, in a thread of its own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientError,
    ClientSession,
    ClientWSTimeout,
    TCPConnector,
    WSServerHandshakeError,
)

from streams.errors import ConfigError
from streams.process.daemon_thread import DaemonThread
from streams.serde.link.frames import MAX_FRAME_BYTES
from streams.worker.link.addresses import Address, At, Target
from streams.worker.link.dialing import Dialing
from streams.worker.link.link import Link
from streams.worker.link.web_socket import WebSocket

_CONNECT_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
_PING_SECONDS = 5.0
"""An owner that does not answer a ping within half of it is dialed again."""


class Dialer:
    """Dials by WebSocket.

    `token` is asked and `ca_file` is read before each connection, since both may be renewed.

    Raises:
        ConfigError: the file with the certificates of authorities cannot be read, or an address is
            in the clear beside it.
    """

    def __init__(
        self, addresses: Sequence[Address], token: Callable[[], str | None], ca_file: Path | None
    ) -> None:
        clear = [each.url for each in addresses if not each.secure]
        if ca_file is not None and clear:
            raise ConfigError(
                f"TIDEGATE_LINK_CA asks for TLS, and {clear[0]} is in the clear: dial wss://, or "
                "unset it"
            )
        self._addresses = addresses
        self._token = token
        self._ca_file = ca_file
        tls_of(ca_file)
        self._thread: DaemonThread | None = None
        self._closed = threading.Event()

    def start(self, link: Link, failed: Callable[[Exception], None]) -> None:
        """Begin to connect; `failed` gets what ends it, in the dialer's thread."""

        async def dial(target: Target) -> str:
            return await self._dial(target, link)

        def body() -> None:
            asyncio.run(Dialing(link, self._addresses, dial).run(self._closed))

        self._thread = DaemonThread("link", body, failed)
        self._thread.start()

    def close(self) -> None:
        """End every connection."""
        self._closed.set()
        if self._thread is not None:
            self._thread.stop(2 * _CLOSE_SECONDS + _CONNECT_SECONDS)

    async def _dial(self, target: Target, link: Link) -> str:
        """Serve one connection to its end; returns why it ended or could not be made."""
        try:
            async with ClientSession(connector=self._connector(target)) as session:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    socket = await session.ws_connect(
                        target.address.url,
                        headers=self._headers(),
                        max_msg_size=MAX_FRAME_BYTES,
                        heartbeat=_PING_SECONDS,
                        timeout=ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                    )
                async with socket:
                    connection = WebSocket(target.name, socket)
                    await connection.serve(link)
                    return connection.why
        except (ClientError, OSError, ConfigError) as error:  # TimeoutError is an OSError
            return _why(error)

    def _connector(self, target: Target) -> TCPConnector:
        tls = tls_of(self._ca_file) if target.address.secure else True
        return TCPConnector(resolver=At(target.ip), ssl=tls)

    def _headers(self) -> dict[str, str]:
        token = self._token()
        return {} if token is None else {"Authorization": f"Bearer {token}"}


def tls_of(ca_file: Path | None) -> ssl.SSLContext:
    """What believes the authorities of a file, or those of the system.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ConfigError(f"TIDEGATE_LINK_CA: cannot read {ca_file}: {error}") from error


def _why(error: Exception) -> str:
    """Why a connection could not be made, in the same words each time: it is logged once."""
    match error:
        case WSServerHandshakeError(status=status):
            return f"it refuses the connection (HTTP {status}): see the token, and its log"
        case ClientConnectorCertificateError(certificate_error=refused):
            reason = getattr(refused, "verify_message", "") or refused
            return f"its certificate is not accepted: {reason}: see TIDEGATE_LINK_CA, and the name"
        case ClientConnectorError(os_error=reason):
            return f"it cannot be reached: {reason}"
        case _:
            return str(error) or f"it does not answer ({type(error).__name__})"
