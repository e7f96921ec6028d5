"""What went wrong in a request, as a class and as a sentence."""

from __future__ import annotations

import ssl

from aiohttp import (
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientHttpProxyError,
    ClientProxyConnectionError,
    ClientSSLError,
    ServerDisconnectedError,
)

from streams.delivery.egress.connector import Dial
from streams.delivery.egress.post import ErrorClass
from streams.errors import EgressDenied

# The first match counts: several of these are subclasses of later ones.
_KINDS: tuple[tuple[type[Exception], ErrorClass], ...] = (
    (ClientProxyConnectionError, "proxy"),
    (ClientHttpProxyError, "proxy"),
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
    "proxy": "the egress proxy gave no connection to {host}",
    "dns": "the name {name} has no address now",
    "tls": "TLS with {host} failed: {reason}",
    "closed": "{host} closed the connection before it answered",
    "timeout": "{host} did not answer in time",
    "denied": "this machine may not connect to {host}",
    "refused": "{host} refused the connection",
    "reset": "the connection to {host} broke before the answer",
    "unreachable": "{host} cannot be reached",
    "protocol": "{host} sent no HTTP answer that can be read, or a head that is too large",
}


def failure(error: Exception, dial: Dial, host: str) -> tuple[ErrorClass, str]:
    """Class and sentence for a request that got no answer; no part of the request is in them."""
    if isinstance(error, EgressDenied):
        return "denied", str(error)
    kind = _kind(error)
    if kind == "timeout" and not dial.connected:
        what = "did not accept a connection" if dial.address else "was not resolved"
        return kind, f"{host} {what} in time"
    name = dial.name or host  # a proxy's name, if it was the proxy that was looked up
    return kind, _SENTENCES[kind].format(host=host, name=name, reason=_tls_reason(error))


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
