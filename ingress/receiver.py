"""What becomes of one webhook, step by step.

G1: it is answered 2xx only after its body and its envelope are acknowledged by all in-sync
replicas; answered otherwise, it may have been written or not, and its sender delivers again.
G3: the tenant is the one in the path, under whose source's secret the signature held.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Protocol

import orjson
import structlog
from aiohttp import web
from prometheus_client import Counter, Histogram

from ingress.body import BODY_SECONDS, Room, Share, read_body
from ingress.duplicates import Duplicates, Receipt
from ingress.event import Event
from ingress.intake import Intake
from ingress.normalize import visible
from ingress.problems import MALFORMED, UNAUTHORIZED, UNAVAILABLE, Refused
from ingress.signatures import SignedRequest, verifier
from ingress.sources import Source
from ingress.tracing import continued_trace
from streams.errors import Erased, KafkaUnavailable, MalformedBody, SignatureError
from streams.serde import ids
from streams.tenants import DEFAULT_BODY_BYTES
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

DEADLINE_SECONDS = 5.0

ACK_SECONDS = Histogram(
    "tidegate_ingress_ack_seconds",
    "From a request's headers to its event's acknowledgement by all in-sync replicas",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
BODY_BYTES = Histogram(
    "tidegate_ingress_body_bytes",
    "Size of bodies whose signature held",
    buckets=(256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 26_214_400),
)
SIGNATURE_FAILURES = Counter(
    "tidegate_ingress_signature_failures_total",
    "Requests whose signature did not hold; scheme `none`: no such source",
    ["scheme", "reason"],
)
OLD_KEYS = Counter(
    "tidegate_ingress_old_key_matches_total",
    "Requests signed with a secret that is not the source's newest",
    ["scheme"],
)

_NOBODY = verifier("hmac-sha256", {})
_NOBODYS_SECRETS = (os.urandom(32),)


class Sources(Protocol):
    """Who may send."""

    @property
    def ready(self) -> bool:
        """False until every source known to the cluster is known here."""

    def lookup(self, tenant_id: str, name: str) -> Source | None:
        """The source, or None where it, or its tenant, is unknown or disabled."""


class Receiver:
    """Takes webhooks in; `deadline_seconds` bounds how long Kafka may take over one."""

    def __init__(
        self,
        sources: Sources,
        intake: Intake,
        topology: Topology,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        body_seconds: float = BODY_SECONDS,
        in_flight_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self._sources = sources
        self._intake = intake
        self._topology = topology
        self._deadline = deadline_seconds
        self._body_seconds = body_seconds
        self._room = Room(in_flight_bytes)
        self._duplicates = Duplicates()
        self._acknowledged = True

    async def receive(self, request: web.BaseRequest, tenant_id: str, name: str) -> web.Response:
        """The answer to an accepted or repeated event.

        Raises:
            Refused: every other answer.
        """
        started = time.perf_counter()
        if not self._sources.ready:
            raise Refused(UNAVAILABLE, "the sources are not known yet")
        with self._room.share() as share:
            event = await self._read(request, share, tenant_id, name)
            receipt, repeated = await self._store_once(event)
        if not repeated:
            ACK_SECONDS.observe(time.perf_counter() - started)
        return _answer(receipt, repeated)

    async def _read(
        self, request: web.BaseRequest, share: Share, tenant_id: str, name: str
    ) -> Event:
        source = self._sources.lookup(tenant_id, name)
        cap = source.settings.max_body_bytes if source else DEFAULT_BODY_BYTES
        body = await read_body(request, share, cap, self._body_seconds)
        return self._event(request, self._authenticate(request, tenant_id, name, body), body)

    def _authenticate(
        self, request: web.BaseRequest, tenant_id: str, name: str, body: bytes
    ) -> Source:
        source = self._sources.lookup(tenant_id, name)
        signed = SignedRequest(request.headers, body, _url(request), request.method, time.time())
        verify, secrets = (source.verify, source.secrets) if source else (_NOBODY, _NOBODYS_SECRETS)
        scheme = source.settings.scheme if source else "none"
        try:
            verified = verify(secrets, signed)
        except SignatureError as error:
            SIGNATURE_FAILURES.labels(scheme, error.reason).inc()
            raise Refused(UNAUTHORIZED) from None
        if source is None:
            raise Refused(UNAUTHORIZED)
        if verified.key_index > 0:
            OLD_KEYS.labels(scheme).inc()
        return source

    def _event(self, request: web.BaseRequest, source: Source, body: bytes) -> Event:
        BODY_BYTES.observe(len(body))
        headers = request.headers
        try:
            normalized = source.normalizer.normalize(headers, body)
        except MalformedBody as error:
            raise Refused(MALFORMED, str(error)) from None
        route = self._topology.route(source.name, normalized.event_type)
        key = (source.tenant_id, source.name, normalized.dedup_key)
        return Event(
            event_id=ids.new_id("evt"),
            fingerprint=ids.fingerprint(*key),
            job_id=ids.event_job_id(*key) if route else None,
            tenant_id=source.tenant_id,
            source=source.name,
            normalized=normalized,
            received_at=time.time_ns() // 1_000_000,
            content_type=_content_type(headers.get("Content-Type")),
            request_id=visible(headers.get("X-Request-Id")),
            traceparent=continued_trace(headers.get("traceparent")),
            priority=route.priority if route else self._topology.default_priority,
            body=body,
        )

    async def _store_once(self, event: Event) -> tuple[Receipt, bool]:
        async def store() -> Receipt:
            await self._intake.store(event)
            return Receipt(event.event_id, event.job_id)

        try:
            async with asyncio.timeout(self._deadline):
                stored = await self._duplicates.once(event.fingerprint, store)
        except TimeoutError:
            self._note(acknowledged=False, reason="deadline")
            raise Refused(UNAVAILABLE, "no acknowledgement within the deadline") from None
        except Erased:
            raise Refused(UNAUTHORIZED) from None
        except KafkaUnavailable as error:
            self._note(acknowledged=False, reason=str(error))
            raise Refused(UNAVAILABLE, "no acknowledgement") from None
        self._note(acknowledged=True)
        return stored

    def _note(self, *, acknowledged: bool, reason: str = "") -> None:
        """Say once that Kafka stopped acknowledging, and once that it does again."""
        if acknowledged == self._acknowledged:
            return
        self._acknowledged = acknowledged
        if acknowledged:
            log.info("kafka acknowledges again")
        else:
            log.warning("kafka does not acknowledge: answering 503", reason=reason)


def _answer(receipt: Receipt, repeated: bool) -> web.Response:
    status, word = (200, "duplicate") if repeated else (202, "accepted")
    answer = {"status": word, "event_id": receipt.event_id, "job_id": receipt.job_id}
    return web.Response(
        status=status, body=orjson.dumps(answer), headers={"Content-Type": "application/json"}
    )


def _url(request: web.BaseRequest) -> str:
    """The URL as the sender addressed it, of which a proxy in front tells the scheme."""
    secure = request.headers.get("X-Forwarded-Proto") == "https"
    return f"{'https' if secure else request.scheme}://{request.host}{request.path_qs}"


def _content_type(given: str | None) -> str:
    if given is None or not given.isascii() or not given.isprintable():
        return "application/octet-stream"
    return given[:200]
