"""What went wrong in a request, as a class and as a sentence."""

from __future__ import annotations

import errno
import socket
import ssl

from aiohttp import (
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientHttpProxyError,
    ClientSSLError,
    ServerDisconnectedError,
)

from streams.delivery.egress.connector import Dial
from streams.delivery.egress.post import ErrorClass
from streams.errors import EgressDenied
from streams.process.daemon_thread import NoThread

REFUSED = 407
"""Proxy Authentication Required (RFC 9110, 15.5.8); some proxies refuse names with it, too."""

_EXHAUSTED = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.EADDRNOTAVAIL,
        socket.EAI_MEMORY,
    }
)
"""What the system answers if this machine has no descriptor, memory or port for a connection."""

_LATE_SECONDS = 0.5
"""An answer that came while the event loop stood still for so long may be there, unread."""

# The first match counts: several of these are subclasses of later ones.
_KINDS: tuple[tuple[type[Exception], ErrorClass], ...] = (
    (ClientConnectorDNSError, "dns"),
    (ClientSSLError, "tls"),
    (ssl.SSLError, "tls"),
    (ServerDisconnectedError, "closed"),
    (TimeoutError, "timeout"),
    (PermissionError, "denied"),
    (ConnectionRefusedError, "refused"),
    (ConnectionError, "reset"),
)
_SENTENCES: dict[ErrorClass, str] = {
    "stalled": "this process stood still while it waited for {host}",
    "exhausted": "this machine has no descriptor, port, thread or memory left to reach {host}",
    "proxy": "the egress proxy gave no connection to {host}",
    "dns": "the name {host} has no address now",
    "tls": "TLS with {host} failed: {reason}",
    "closed": "{host} closed the connection before it answered",
    "timeout": "{host} did not answer in time",
    "denied": "this machine may not connect to {host}",
    "refused": "{host} refused the connection",
    "reset": "the connection to {host} broke before the answer",
    "unreachable": "{host} cannot be reached",
    "protocol": "{host} sent no HTTP answer that can be read, or a head that is too large",
}


def failure(
    error: Exception, dial: Dial, host: str, late_seconds: float = 0.0
) -> tuple[ErrorClass, str]:
    """Class and sentence for a request that got no answer; no part of the request is in them.

    `late_seconds` is how long after its end the request's time was found to be over.
    """
    if isinstance(error, EgressDenied):
        return "denied", str(error)
    if isinstance(error, TimeoutError) and late_seconds > _LATE_SECONDS:
        return "stalled", _SENTENCES["stalled"].format(host=host)
    if _is_exhausted(error):
        return "exhausted", _SENTENCES["exhausted"].format(host=host)
    through = _of_proxy(error, dial, host) if dial.proxied and not dial.connected else None
    return through or _of_receiver(error, dial, host)


def refused_by_proxy(host: str) -> tuple[ErrorClass, str]:
    """Class and sentence for a request that the proxy wants another password for."""
    told = f"the egress proxy refused Tidegate a connection to {host} ({REFUSED})"
    return "proxy", f"{told}: correct user and password in egress_proxy, or the proxy's rules"


def _is_exhausted(error: Exception) -> bool:
    found = error.os_error if isinstance(error, ClientConnectorError) else error
    system = isinstance(found, OSError) and found.errno in _EXHAUSTED
    return system or isinstance(found, NoThread | MemoryError)


def _of_proxy(error: Exception, dial: Dial, host: str) -> tuple[ErrorClass, str] | None:
    """What kept the proxy from giving a connection; None if it was its receiver."""
    if isinstance(error, ClientHttpProxyError) and error.status != REFUSED:
        told = f"the egress proxy answered {error.status}"
        return "unreachable", f"{host} cannot be reached: {told} when asked for it"
    if isinstance(error, ClientHttpProxyError):
        return refused_by_proxy(host)
    in_tunnel = isinstance(error, ClientConnectorError) and error.host == host
    if in_tunnel or (isinstance(error, TimeoutError) and dial.reached):
        return None
    if isinstance(error, ClientConnectorDNSError):
        return "proxy", f"the egress proxy's name {dial.name} has no address now"
    return "proxy", _SENTENCES["proxy"].format(host=host)


def _of_receiver(error: Exception, dial: Dial, host: str) -> tuple[ErrorClass, str]:
    kind = _kind(error)
    if kind == "timeout" and not dial.connected:
        what = "did not accept a connection" if dial.address else "was not resolved"
        return kind, f"{host} {what} in time"
    return kind, _SENTENCES[kind].format(host=host, reason=_tls_reason(error))


def _kind(error: Exception) -> ErrorClass:
    if type(error) is ClientConnectorError:
        return _listed(error.os_error) or "unreachable"
    return _listed(error) or ("reset" if isinstance(error, OSError) else "protocol")


def _listed(error: Exception) -> ErrorClass | None:
    return next((kind for known, kind in _KINDS if isinstance(error, known)), None)


def _tls_reason(error: Exception) -> str:
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    text = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or "no handshake"
    return str(text).lower().replace("_", " ")
