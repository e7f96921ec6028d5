"""The answers to requests that are not accepted, as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from streams.http.problem import problem
from streams.limits.backlog import RETRY_SECONDS as BACKLOG_RETRY_SECONDS

RETRY_AFTER_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of refusal; its `type` is `urn:tidegate:problem:<name>` and never changes."""

    status: int
    name: str
    title: str
    remedy: str
    """What its sender does next; constant, so that it reveals nothing."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self, detail: str | None = None) -> web.Response:
        """The answer; the sender sees `detail`, so it must hold nothing secret."""
        text = self.remedy if detail is None else f"{detail}: {self.remedy}"
        return problem(self.status, self.name, text, title=self.title, headers=self.headers)


class Refused(Exception):
    """Ends the handling of a request with a problem.

    The sender sees `problem` and `detail`. It never sees `cause`, which the rejections count: the
    causes of a 401 share one answer.
    """

    def __init__(
        self, problem: Problem, detail: str | None = None, *, cause: str | None = None
    ) -> None:
        super().__init__(problem.name)
        self.problem = problem
        self.detail = detail
        self.cause = cause


_CLOSE = {"Connection": "close"}
"""For answers after which the rest of the request is not read."""

_AGAIN = "wait as long as Retry-After says, then deliver it again"

BAD_REQUEST = Problem(
    400,
    "malformed-request",
    "The request is not HTTP that can be read.",
    "send HTTP/1.1 as RFC 9112 defines it, without TLS on this port",
    _CLOSE,
)
MALFORMED = Problem(
    400,
    "malformed-body",
    "The body is not JSON that can be read.",
    "send JSON as RFC 8259 defines it",
)
UNAUTHORIZED = Problem(
    401,
    "unauthorized",
    "No such source, or the signature does not hold.",
    "check the tenant and the source in the URL, and sign the request with the source's secret; "
    "only the operator is shown what was wrong",
    {"WWW-Authenticate": 'Signature realm="webhooks"'},
)
"""Unknown tenant, unknown source, disabled and bad signature share this answer, so that it reveals
nothing."""
NOT_FOUND = Problem(
    404,
    "not-found",
    "Nothing is served at this path.",
    "deliver below /v1/hooks/, to the URL that the operator gave you",
)
NOT_ALLOWED_HERE = Problem(
    405,
    "method-not-allowed",
    "Deliver with POST.",
    "this path takes deliveries: use POST",
    {"Allow": "POST"},
)
READ_ONLY = Problem(
    405,
    "method-not-allowed",
    "Read with GET.",
    "this path is only read: use GET",
    {"Allow": "GET, HEAD"},
)
SLOW_BODY = Problem(
    408, "slow-body", "The body did not arrive in time.", "deliver it again, faster", _CLOSE
)
TOO_LARGE = Problem(
    413,
    "too-large",
    "The body is larger than is accepted.",
    "send less, or ask the operator to raise the source's max_body_bytes",
    _CLOSE,
)
URI_TOO_LONG = Problem(
    414,
    "uri-too-long",
    "The request's target is too long.",
    "use a URL of at most 4,096 bytes",
    _CLOSE,
)
UNSUPPORTED = Problem(
    415,
    "unsupported-media",
    "A body in this form cannot be read.",
    "send JSON, text or a form, as it is and not compressed",
    _CLOSE,
)
RATE_LIMITED = Problem(
    429, "rate-limited", "The tenant is over its rate: deliver it again, a while later.", _AGAIN
)
BACKLOG_FULL = Problem(
    429,
    "backlog-full",
    "Too many jobs are waiting: deliver it again, a while later.",
    _AGAIN,
    {"Retry-After": str(BACKLOG_RETRY_SECONDS)},
)
HEADERS_TOO_LARGE = Problem(
    431,
    "headers-too-large",
    "A header is too long, or there are too many.",
    "send at most 128 headers of at most 8,190 bytes each, and 64 KiB in all",
    _CLOSE,
)
INTERNAL = Problem(
    500,
    "internal",
    "The request could not be handled; its log line says why.",
    "deliver it again, and tell the operator if it fails again",
)
BUSY = Problem(
    429,
    "busy",
    "Too many bodies are under way: deliver it again.",
    _AGAIN,
    {"Retry-After": str(RETRY_AFTER_SECONDS)},
)
UNAVAILABLE = Problem(
    503,
    "unavailable",
    "The event could not be stored for certain: deliver it again.",
    _AGAIN,
    {"Retry-After": str(RETRY_AFTER_SECONDS)},
)
