"""Looks at the owners of partitions as a worker does, without becoming one.

The doctor says hello with `check`: the owner answers whether it would take such a worker, and
closes the connection. So no worker is replaced, and no lease is sent.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorSSLError,
    ClientError,
    ClientSession,
    ClientWebSocketResponse,
    TCPConnector,
    WSMsgType,
    WSServerHandshakeError,
)
from cryptography import x509

from streams.errors import DecodeError
from streams.serde.link import frames
from streams.serde.link.messages import Hello, Refused, Welcome
from streams.worker.link.addresses import Address, At, Target, targets
from streams.worker.link.dialer import tls_of

_NAME_SECONDS = 3.0
_DIAL_SECONDS = 4.0
"""How long a look-up may take, and then a dial with its answer."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What an owner shows: the names that it is for, and when it ends, in Unix time."""

    names: tuple[str, ...]
    ends_at: float


@dataclass(frozen=True, slots=True)
class Met:
    """What one place answered.

    `broken` is why there is no connection, `distrust` why its certificate is not believed, and
    `status` the answer of HTTP that refused the upgrade.
    """

    target: Target
    broken: str | None = None
    distrust: str | None = None
    status: int | None = None
    certificate: Certificate | None = None
    answer: Welcome | Refused | None = None


@dataclass(frozen=True, slots=True)
class LinkSeen:
    """`nameless` are addresses whose names stand for nothing, with the reason."""

    met: tuple[Met, ...] = ()
    nameless: Mapping[Address, str] = field(default_factory=dict)


def read_link(
    addresses: Sequence[Address], token: str, ca_file: Path | None, hello: Hello
) -> LinkSeen:
    """Dial every place that the addresses stand for, all at once.

    Raises:
        ConfigError: the file with the certificates of authorities cannot be read.
    """
    return asyncio.run(_look(addresses, token, tls_of(ca_file), hello))


async def _look(
    addresses: Sequence[Address], token: str, tls: ssl.SSLContext, hello: Hello
) -> LinkSeen:
    found = await asyncio.gather(*map(_named, addresses))
    places = [target for each in found if not isinstance(each, str) for target in each]
    met = await asyncio.gather(*(_meet(target, token, tls, hello) for target in places))
    pairs = zip(addresses, found, strict=True)
    return LinkSeen(tuple(met), {each: why for each, why in pairs if isinstance(why, str)})


async def _named(address: Address) -> list[Target] | str:
    try:
        async with asyncio.timeout(_NAME_SECONDS):
            return await targets(address)
    except TimeoutError:
        return f"no name server answers within {_NAME_SECONDS:g} s"
    except OSError as error:
        return error.strerror or str(error)


async def _meet(target: Target, token: str, tls: ssl.SSLContext, hello: Hello) -> Met:
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            return await _dial(target, token, tls, hello)
    except WSServerHandshakeError as error:
        return Met(target, status=error.status)
    except ClientConnectorCertificateError as error:
        why = getattr(error.certificate_error, "verify_message", "") or str(error)
        return Met(target, distrust=why, certificate=await _shown(target))
    except ClientConnectorSSLError:
        return Met(target, broken="it does not speak TLS")
    except TimeoutError:
        return Met(target, broken=f"nothing answers within {_DIAL_SECONDS:g} s")
    except (ClientError, OSError) as error:
        cause = getattr(error, "os_error", None) or error
        return Met(target, broken=getattr(cause, "strerror", None) or str(cause))


async def _dial(target: Target, token: str, tls: ssl.SSLContext, hello: Hello) -> Met:
    headers = {"Authorization": f"Bearer {token}"}
    connector = TCPConnector(resolver=At(target.ip), ssl=tls)
    async with (
        ClientSession(connector=connector) as session,
        session.ws_connect(target.address.url, headers=headers) as socket,
    ):
        met = Met(target, certificate=_of(socket.get_extra_info("ssl_object")))
        with suppress(ConnectionError):  # whom it does not admit, it may have cut off
            await socket.send_str(frames.frame([hello]).decode())
        return await _answered(met, socket)


async def _answered(met: Met, socket: ClientWebSocketResponse) -> Met:
    message = await socket.receive()
    if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
        return replace(met, broken="it closed the connection without an answer")
    try:
        first = frames.from_owner(message.data)[:1]
    except DecodeError:
        first = []
    if not first or not isinstance(first[0], Welcome | Refused):
        return replace(met, broken="what answers there is no owner of partitions")
    return replace(met, answer=first[0])


async def _shown(target: Target) -> Certificate | None:
    """The certificate of a server that is not believed."""
    anything = ssl.create_default_context()
    anything.check_hostname, anything.verify_mode = False, ssl.CERT_NONE
    address = target.address
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            _, writer = await asyncio.open_connection(
                target.ip, address.port, ssl=anything, server_hostname=address.host
            )
    except OSError:  # TimeoutError is one
        return None
    shown = _of(writer.get_extra_info("ssl_object"))
    writer.transport.abort()
    return shown


def _of(connection: ssl.SSLObject | None) -> Certificate | None:
    der = connection.getpeercert(binary_form=True) if connection else None
    if not der:
        return None
    try:
        found = x509.load_der_x509_certificate(der)
        return Certificate(_names(found), found.not_valid_after_utc.timestamp())
    except ValueError:
        return None


def _names(found: x509.Certificate) -> tuple[str, ...]:
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    of_hosts = names.get_values_for_type(x509.DNSName)
    return (*of_hosts, *map(str, names.get_values_for_type(x509.IPAddress)))
