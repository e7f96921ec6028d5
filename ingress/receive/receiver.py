"""Handles one webhook, step by step; each step is a module beside this one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from aiohttp import web
from prometheus_client import Histogram

from ingress.rates.tarpit import Tarpit
from ingress.receive import headers as heads
from ingress.receive.acknowledgement import Acknowledgement
from ingress.receive.answer_log import AnswerLog
from ingress.receive.answers import accepted, greeting
from ingress.receive.authentication import Authenticated, Authenticator
from ingress.receive.body import BODY_SECONDS, MemoryBudget, read_body
from ingress.receive.duplicates import Duplicates, Receipt, seconds_kept
from ingress.receive.event import Event, routed
from ingress.receive.event_writer import EventWriter
from ingress.receive.headers import Headers
from ingress.receive.problems import (
    BACKLOG_FULL,
    MALFORMED,
    NOT_ALLOWED_HERE,
    RATE_LIMITED,
    UNAVAILABLE,
    Refused,
)
from ingress.receive.quarantine import Quarantine
from ingress.receive.request_span import note_answer, note_refusal, request_span
from ingress.receive.unrouted_log import Unrouted
from ingress.schemes import SignedRequest, handshake, success
from ingress.tenants.sources import SourceTable
from streams.errors import MalformedBody, Misfit
from streams.limits.backlog import Depth
from streams.serde import ids
from streams.tenants.settings import DEFAULT_BODY_BYTES
from streams.topology.model import Topology
from streams.tracing.spans import exemplar

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

_JUST_STARTED = "this ingress has just started and does not know the sources yet"


class _OverRate(Exception):
    """This delivery must be refused; the tenant's next one passes in the given seconds."""

    def __init__(self, tenant_id: str, seconds: float) -> None:
        super().__init__(tenant_id)
        self.tenant_id = tenant_id
        self.seconds = seconds


class Receiver:
    """Takes webhooks in; `deadline_seconds` bounds how long Kafka may take over one.

    `ready` says whether every source known to the cluster is known here. `wait` returns how many
    seconds a tenant's delivery has to wait for its rate: 0.0 lets this one pass and counts it, and
    None means that the share is not known. `full` returns the cap on waiting jobs that lets none of
    a tenant and type in.
    """

    def __init__(
        self,
        sources: SourceTable,
        ready: Callable[[], bool],
        writer: EventWriter,
        quarantine: Quarantine,
        topology: Topology,
        *,
        wait: Callable[[str], float | None] = lambda tenant_id: 0.0,
        full: Callable[[str, str], Depth | None] = lambda tenant_id, type_: None,
        deadline_seconds: float = DEADLINE_SECONDS,
        body_seconds: float = BODY_SECONDS,
        in_flight_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self._sources = sources
        self._ready = ready
        self._authenticator = Authenticator(sources)
        self._writer = writer
        self._quarantine = quarantine
        self._topology = topology
        self._wait = wait
        self._full = full
        self._tarpit = Tarpit()
        self._body_seconds = body_seconds
        self._budget = MemoryBudget(in_flight_bytes)
        self._duplicates = Duplicates(seconds=seconds_kept(topology.window_ms))
        self._unrouted = Unrouted()
        self._log = AnswerLog()
        self._acknowledgement = Acknowledgement(deadline_seconds)

    async def receive(self, request: web.BaseRequest, tenant_id: str, name: str) -> web.Response:
        """The answer to an accepted, repeated or quarantined event, or to a vendor's question.

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
            Refused: 405 for every other request, also if the source is unknown; what its headers
                alone are refused for; 503 before the sources are known.
        """
        if not self._ready():
            raise Refused(UNAVAILABLE, _JUST_STARTED)
        signed = _signed(request, _checked(request), b"")
        source = self._sources.lookup(tenant_id, name)
        if source is not None and (asked := source.challenge(signed)) is not None:
            return greeting(asked)
        raise Refused(NOT_ALLOWED_HERE)

    async def _receive(self, request: web.BaseRequest, tenant_id: str, name: str) -> web.Response:
        started = time.perf_counter()
        if not self._ready():
            raise Refused(UNAVAILABLE, _JUST_STARTED)
        headers = _checked(request)
        with self._budget.reserve(tenant_id, request.content_length) as reservation:
            known = self._sources.lookup(tenant_id, name)
            cap = known.settings.max_body_bytes if known else DEFAULT_BODY_BYTES
            body = await read_body(request, reservation, cap, self._body_seconds)
            signed = _signed(request, headers, body)
            if known is not None and (asked := known.challenge(signed)) is not None:
                return greeting(asked)
            sender = self._authenticator.authenticate(tenant_id, name, signed)
            scheme = sender.source.settings.scheme
            if (asked := handshake(scheme, body, sender.secret)) is not None:
                return greeting(asked)
            self._admit(sender.source.tenant_id)
            return await self._traced(sender, headers, body, started)

    async def _traced(
        self, sender: Authenticated, headers: Headers, body: bytes, started: float
    ) -> web.Response:
        source = sender.source
        with request_span(headers.get("traceparent"), source, started) as span:
            try:
                outcome, receipt = await self._take_in(sender, headers, body, started)
                response = accepted(outcome, receipt, success(source.settings.scheme))
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
        self, sender: Authenticated, headers: Headers, body: bytes, started: float
    ) -> tuple[str, Receipt]:
        """Store an event once, or put its body aside; the outcome and what the sender is told."""
        source = sender.source
        BODY_BYTES.observe(len(body), exemplar())
        try:
            event = self._event(sender, headers, body)
        except Misfit as misfit:
            return "quarantined", await self._put_aside(sender, headers, body, misfit)
        receipt, repeated = await self._store_once(event)
        if repeated:
            self._log.duplicate(source.tenant_id, source.name, receipt.event_id)
            return "duplicate", receipt
        ACK_SECONDS.observe(time.perf_counter() - started, exemplar())
        return "accepted", receipt

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

    def _event(self, sender: Authenticated, headers: Headers, body: bytes) -> Event:
        event_id, source = ids.new_id("evt"), sender.source
        normalized = source.normalizer.normalize(headers, body, sender.verified, event_id)
        return routed(
            self._topology,
            source.tenant_id,
            source.name,
            normalized,
            heads.facts(headers),
            body,
            callback_url=source.settings.callback_url,
            event_id=event_id,
        )

    def _refuse_full(self, event: Event) -> None:
        """Refuse a new event that would have a job while too many wait; others pass.

        The sender does not learn which cap is reached, since others' jobs may fill it.
        """
        if event.job_type is not None:
            full = self._full(event.envelope.tenant_id, event.job_type)
            if full is not None:
                raise Refused(BACKLOG_FULL, cause=full.line.scope)

    async def _put_aside(
        self, sender: Authenticated, headers: Headers, body: bytes, misfit: Misfit
    ) -> Receipt:
        if isinstance(misfit, MalformedBody) and heads.says_json(headers):
            raise Refused(MALFORMED, str(misfit)) from None
        facts = heads.facts(headers)
        event_id = await self._acknowledgement.of(
            self._quarantine.keep(sender.source, headers, sender.verified, facts, body, misfit)
        )
        self._acknowledgement.note()
        return Receipt(event_id, None)

    async def _store_once(self, event: Event) -> tuple[Receipt, bool]:
        async def store() -> Receipt:
            self._refuse_full(event)
            await self._writer.store(event)
            self._acknowledgement.note()
            if not event.envelope.routed:
                self._unrouted.tell(event.envelope)
            return Receipt(event.envelope.event_id, event.job_id)

        return await self._acknowledgement.of(
            self._duplicates.once(event.envelope.fingerprint, store)
        )


def _checked(request: web.BaseRequest) -> Headers:
    """The request's headers that came once.

    Raises:
        Refused: the request can be refused from its headers alone.
    """
    heads.check(request.headers, request.raw_headers)
    return heads.unambiguous(request.headers)


def _signed(request: web.BaseRequest, headers: Headers, body: bytes) -> SignedRequest:
    """The request as its sender signed it; a proxy in front may name the scheme of its URL."""
    scheme = heads.forwarded_scheme(request.headers) or request.scheme
    url = f"{scheme}://{request.host}{request.path_qs}"
    return SignedRequest(headers, body, url, request.method, time.time())
