"""One request to a customer's endpoint, and how it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from streams.errors import EgressDenied

ErrorClass = Literal[
    "timeout",
    "refused",
    "unreachable",
    "reset",
    "closed",
    "dns",
    "tls",
    "denied",
    "proxy",
    "exhausted",
    "stalled",
    "redirect",
    "protocol",
]
"""Why no usable answer came.

`denied`: Tidegate, or this machine's firewall, did not send. `refused`, `unreachable`, `dns`,
`tls`: there was no connection, so nothing was sent. `reset`, `closed`: the connection broke before
the answer's head. `protocol`: the answer is not HTTP, its head is too large, or interim answers
come without end. `redirect`: the status is 3xx, which is never followed.

Three say nothing of the receiver. `proxy`: the operator's proxy failed, and not its way to the
receiver. `exhausted`: this machine had no descriptor, port, thread or memory left for a connection.
`stalled`: this process stood still beyond the end of the request's time.
"""

_OURS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]*")


@dataclass(frozen=True, slots=True)
class Post:
    """One POST request of a tenant.

    `timeout_seconds` covers look-up, connect, TLS, head and body together, without the time in
    which the tenant waits for its turn to look a name up.
    """

    tenant_id: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended; the receiver took it if `status` is 2xx.

    `error` is None if a head came with a status other than 3xx. The status counts from then on,
    even if the body hangs or breaks; `detail` then says so. `address` was dialled last, or belongs
    to the reused connection. `retry_after_seconds` is within 0 and 86,400. `excerpt` is printable
    and has at most 1,024 characters.
    """

    status: int | None
    error: ErrorClass | None
    detail: str
    address: str | None
    duration_ms: int
    retry_after_seconds: float | None = None
    excerpt: str = ""


def check_headers(headers: tuple[tuple[str, str], ...]) -> None:
    """Check that the headers cannot change how the request is framed on its connection.

    Raises:
        EgressDenied: a header is malformed, or one that Tidegate sets itself.
    """
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise EgressDenied("header", "a header's name is not valid: correct it")
        if name.lower() in _OURS:
            raise EgressDenied("header", f"Tidegate sets the header {name} itself: remove it")
        if not _VALUE.fullmatch(value):
            raise EgressDenied("header", f"the value of header {name} is not valid: correct it")
