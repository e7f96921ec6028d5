"""Handles one webhook, step by step.

G1: a webhook is answered 2xx only after all in-sync replicas have acknowledged its body and its
envelope. After any other answer it may have been written or not, and its sender delivers it again.
G3: the tenant comes from the route (`ingress/tenants/addressing.py`), and the signature must hold
under a secret of that tenant's source.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol, TypeVar

import orjson
import structlog
from aiohttp import web
from prometheus_client import Counter, Histogram

from ingress.rates.tarpit import Tarpit
from ingress.receive import headers as heads
from ingress.receive.answer_log import AnswerLog
from ingress.receive.body import BODY_SECONDS, MemoryBudget, read_body
from ingress.receive.duplicates import Duplicates, Receipt, seconds_kept
from ingress.receive.event import Event, routed
from ingress.receive.event_writer import EventWriter
from ingress.receive.headers import Headers
from ingress.receive.problems import (
    MALFORMED,
    NOT_ALLOWED_HERE,
    RATE_LIMITED,
    UNAUTHORIZED,
    UNAVAILABLE,
    Refused,
)
from ingress.receive.quarantine import Quarantine
from ingress.receive.request_span import note_answer, note_refusal, request_span
from ingress.receive.unrouted_log import Unrouted
from ingress.schemes import Answer, SignedRequest, Verified, challenge, handshake, verifier
from ingress.tenants.sources import Closed, Source
from streams.errors import Erased, KafkaUnavailable, MalformedBody, Misfit, SignatureError
from streams.serde import ids
from streams.tenants.settings import DEFAULT_BODY_BYTES
from streams.topology.model import Topology
from streams.tracing.spans import exemplar

T = TypeVar("T")
log = structlog.get_logger(__name__)

OUTCOME: web.ResponseKey[str] = web.ResponseKey("outcome", str)
"""An answer that is no problem says under this key how its delivery is counted."""
DEADLINE_SECONDS = 5.0
CALM_SECONDS = 10.0

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


_JUST_STARTED = "this ingress has just started and does not know the sources yet"
_NOBODY = verifier("hmac-sha256", {})
_NOBODYS_SECRETS = {0: os.urandom(32)}


class Sources(Protocol):
    """The sources that may send."""

    @property
    def ready(self) -> bool:
        """False until every source known to the cluster is known here."""

    def lookup(self, tenant_id: str, name: str) -> Source | None:
        """The source, or None if it or its tenant is unknown or disabled."""

    def why_closed(self, tenant_id: str, name: str) -> Closed | None:
        """Why `lookup` finds no source; None if it finds one."""


class _OverRate(Exception):
    """This delivery must be refused; the tenant's next one passes in the given seconds."""

    def __init__(self, tenant_id: str, seconds: float) -> None:
        super().__init__(tenant_id)
        self.tenant_id = tenant_id
        self.seconds = seconds


class Receiver:
    """Takes webhooks in; `deadline_seconds` bounds how long Kafka may take over one.

    `wait` returns how many seconds a tenant's delivery has to wait for its rate: 0.0 lets this one
    pass and counts it, and None means that the share is not known.
    """

    def __init__(
        self,
        sources: Sources,
        writer: EventWriter,
        quarantine: Quarantine,
        topology: Topology,
        *,
        wait: Callable[[str], float | None] = lambda tenant_id: 0.0,
        deadline_seconds: float = DEADLINE_SECONDS,
        body_seconds: float = BODY_SECONDS,
        in_flight_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self._sources = sources
        self._writer = writer
        self._quarantine = quarantine
        self._topology = topology
        self._wait = wait
        self._tarpit = Tarpit()
        self._deadline = deadline_seconds
        self._body_seconds = body_seconds
        self._budget = MemoryBudget(in_flight_bytes)
        self._duplicates = Duplicates(seconds=seconds_kept(topology.window_ms))
        self._unrouted = Unrouted()
        self._log = AnswerLog()
        self._acknowledged = True
        self._missed_at = float("-inf")

    async def receive(self, request: web.BaseRequest, tenant_id: str, name: str) -> web.Response:
        """The answer to an accepted, repeated or quarantined event, or to a vendor's handshake.

        Raises:
            Refused: every other answer.
        """
        try:
            return await self._receive(request, tenant_id, name)
        except _OverRate as over:
            verified_as, seconds = over.tenant_id, over.seconds
        # Wait only here: inside the `except` block the exception's frames would keep the body
        # in memory, which no budget counts any more.
        left = await self._tarpit.hold(verified_as, seconds)
        headers = {"Retry-After": str(max(1, math.ceil(left)))}
        raise Refused(replace(RATE_LIMITED, headers=headers))

    def challenged(self, request: web.BaseRequest, tenant_id: str, name: str) -> web.Response:
        """The answer to a question that the source's vendor asks by another method than POST.

        Raises:
            Refused: 405 for every other request, also if the source is unknown; 503 before the
                sources are known.
        """
        if not self._sources.ready:
            raise Refused(UNAVAILABLE, _JUST_STARTED)
        source = self._sources.lookup(tenant_id, name)
        if source is not None:
            heads.check(request.headers, request.raw_headers)
            headers = heads.unambiguous(request.headers)
            asked = SignedRequest(headers, b"", _url(request), request.method, time.time())
            answer = challenge(source.settings.scheme, source.settings.options, asked)
            if answer is not None:
                return _greeting(answer)
        raise Refused(NOT_ALLOWED_HERE)

    async def _receive(self, request: web.BaseRequest, tenant_id: str, name: str) -> web.Response:
        started = time.perf_counter()
        if not self._sources.ready:
            raise Refused(UNAVAILABLE, _JUST_STARTED)
        heads.check(request.headers, request.raw_headers)
        headers = heads.unambiguous(request.headers)
        with self._budget.reserve(tenant_id, request.content_length) as reservation:
            known = self._sources.lookup(tenant_id, name)
            cap = known.settings.max_body_bytes if known else DEFAULT_BODY_BYTES
            body = await read_body(request, reservation, cap, self._body_seconds)
            source, verified, secret = self._authenticate(request, headers, tenant_id, name, body)
            if (asked := handshake(source.settings.scheme, body, secret)) is not None:
                return _greeting(asked)
            self._admit(source.tenant_id)
            return await self._traced(source, headers, verified, body, started)

    async def _traced(
        self, source: Source, headers: Headers, verified: Verified, body: bytes, started: float
    ) -> web.Response:
        with request_span(headers.get("traceparent"), source, started) as span:
            try:
                outcome, receipt = await self._take_in(source, headers, verified, body, started)
                response = _answer(outcome, receipt)
                note_answer(span, response, outcome, receipt)
                return response
            except Refused as error:
                note_refusal(span, error)
                refused = error
        try:
            raise refused
        finally:
            del refused  # its traceback holds this frame: the cycle would keep the body in memory

    async def _take_in(
        self, source: Source, headers: Headers, verified: Verified, body: bytes, started: float
    ) -> tuple[str, Receipt]:
        """Store an event once, or put its body aside; the outcome and what the sender is told."""
        BODY_BYTES.observe(len(body), exemplar())
        try:
            event = self._event(source, headers, verified, body)
        except Misfit as misfit:
            return "quarantined", await self._put_aside(source, headers, verified, body, misfit)
        receipt, repeated = await self._store_once(event)
        if repeated:
            self._log.duplicate(source.tenant_id, source.name, receipt.event_id)
            return "duplicate", receipt
        ACK_SECONDS.observe(time.perf_counter() - started, exemplar())
        return "accepted", receipt

    def _authenticate(
        self, request: web.BaseRequest, headers: Headers, tenant_id: str, name: str, body: bytes
    ) -> tuple[Source, Verified, bytes]:
        now = time.time()
        source = self._sources.lookup(tenant_id, name)
        held = source.secrets(now) if source else {}
        # A source without a secret is refused like an unknown one, and takes as long.
        verify, secrets = (source.verify, held) if source and held else (_NOBODY, _NOBODYS_SECRETS)
        scheme = source.settings.scheme if source else "none"
        signed = SignedRequest(headers, body, _url(request), request.method, now)
        try:
            verified = verify(tuple(secrets.values()), signed)
        except SignatureError as error:
            reason = "no_secret" if source and not held else error.reason
            SIGNATURE_FAILURES.labels(scheme, reason).inc()
            cause = self._cause(tenant_id, name, source if held else None, error.reason)
            raise Refused(UNAUTHORIZED, cause=cause) from None
        if source is None or not held:
            cause = self._cause(tenant_id, name, None, "mismatch")
            raise Refused(UNAUTHORIZED, cause=cause)
        if tuple(held)[verified.key_index] > 0:
            OLD_KEYS.labels(scheme).inc()
        return source, verified, tuple(held.values())[verified.key_index]

    def _cause(self, tenant_id: str, name: str, usable: Source | None, failed: str) -> str:
        """What the operator is told of a 401, whose sender is told nothing.

        Each refusal looks up both, so that none takes longer than another.
        """
        found = self._sources.lookup(tenant_id, name)
        closed = self._sources.why_closed(tenant_id, name)
        if usable is not None:
            return failed
        secretless = "unknown_source" if found is None else found.without_secret(time.time())
        return closed or secretless

    def _admit(self, tenant_id: str) -> None:
        """Enforce the tenant's rate, for which only verified deliveries count.

        Before verification, a 429 would tell a stranger that the tenant exists, and a stranger
        could use up the tenant's rate.
        """
        seconds = self._wait(tenant_id)
        if seconds is None:
            raise Refused(
                UNAVAILABLE, "this ingress does not know the tenant's share of its rate yet"
            )
        if seconds:
            raise _OverRate(tenant_id, seconds)

    def _event(self, source: Source, headers: Headers, verified: Verified, body: bytes) -> Event:
        event_id = ids.new_id("evt")
        normalized = source.normalizer.normalize(headers, body, verified, event_id)
        return routed(
            self._topology, source.tenant_id, source.name, normalized, heads.facts(headers), body,
            callback_url=source.settings.callback_url, event_id=event_id,
        )  # fmt: skip

    async def _put_aside(
        self, source: Source, headers: Headers, verified: Verified, body: bytes, misfit: Misfit
    ) -> Receipt:
        if isinstance(misfit, MalformedBody) and heads.says_json(headers):
            raise Refused(MALFORMED, str(misfit)) from None
        facts = heads.facts(headers)
        event_id = await self._acknowledged_in_time(
            self._quarantine.keep(source, headers, verified, facts, body, misfit)
        )
        self._note(acknowledged=True)
        return Receipt(event_id, None)

    async def _store_once(self, event: Event) -> tuple[Receipt, bool]:
        async def store() -> Receipt:
            await self._writer.store(event)
            self._note(acknowledged=True)
            if event.job_id is None:
                self._unrouted.tell(event)
            return Receipt(event.event_id, event.job_id)

        return await self._acknowledged_in_time(self._duplicates.once(event.fingerprint, store))

    async def _acknowledged_in_time(self, storing: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._deadline):
                stored = await storing
        except TimeoutError:
            self._note(acknowledged=False, reason="deadline")
            raise Refused(UNAVAILABLE, "Kafka did not acknowledge the event in time") from None
        except Erased:
            raise Refused(UNAUTHORIZED, cause="erased_tenant") from None
        except KafkaUnavailable as error:
            self._note(acknowledged=False, reason=str(error))
            raise Refused(UNAVAILABLE, "Kafka did not acknowledge the event") from None
        return stored

    def _note(self, *, acknowledged: bool, reason: str = "") -> None:
        """Log once when Kafka stops acknowledging, and once when it has acknowledged for a while.

        If one partition has no leader, Kafka goes on to acknowledge the events of others.
        """
        now = time.monotonic()
        if not acknowledged:
            self._missed_at = now
        elif now - self._missed_at < CALM_SECONDS:
            return
        if acknowledged == self._acknowledged:
            return
        self._acknowledged = acknowledged
        if acknowledged:
            log.info("kafka acknowledges again")
        else:
            log.warning("kafka does not acknowledge: answering 503", reason=reason)


def _greeting(asked: Answer) -> web.Response:
    headers = {
        **asked.headers,
        "Content-Type": asked.content_type,
        "X-Content-Type-Options": "nosniff",  # it may repeat what a stranger has sent
        "Cache-Control": "no-store",
    }
    response = web.Response(status=asked.status, body=asked.body, headers=headers)
    response[OUTCOME] = "handshake"
    return response


def _answer(status: str, receipt: Receipt) -> web.Response:
    answer: dict[str, str | None] = {"status": status, "event_id": receipt.event_id}
    if status != "quarantined":
        answer["job_id"] = receipt.job_id
    response = web.Response(
        status=200 if status == "duplicate" else 202,
        body=orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE),
        headers={"Content-Type": "application/json"},
    )  # fmt: skip
    response[OUTCOME] = status
    return response


def _url(request: web.BaseRequest) -> str:
    """The URL as the sender addressed it; a proxy in front may name its scheme."""
    scheme = heads.forwarded_scheme(request.headers) or request.scheme
    return f"{scheme}://{request.host}{request.path_qs}"
