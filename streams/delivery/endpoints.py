"""The endpoints of one partition's tenants, as the fold of `tenants`, and who gets what."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import structlog

from streams.delivery.attempts import Attempt
from streams.delivery.endpoint import Course, Endpoint, enabled_anew, made, matcher
from streams.delivery.store import ENDPOINT, ERASING, PARKING, STATE, TENANT, DeliveryStore
from streams.errors import PoisonRecord
from streams.process.bounded_cache import BoundedCache
from streams.runtime.processor import Record
from streams.serde import codec
from streams.serde.delivery_records import EndpointState, Outgoing
from streams.serde.delivery_states import OPEN
from streams.serde.keys import join, split
from streams.tenants.endpoints import CALLBACKS

log = structlog.get_logger(__name__)

_TIME = struct.Struct(">Q")
_DISABLED, _ERASED = b"d", b"e"
_MOST_WANTING, _PLACE_BYTES = 4 * 1024 * 1024, 8
"""Senders invent types of events, and a thousand endpoints may want each."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The endpoints that a record concerns; one that is `opened` took no deliveries before.

    One that `asks` wants more than before.
    """

    endpoints: tuple[Endpoint, ...] = ()
    opened: bool = False
    asks: bool = False


class Endpoints:
    """Endpoints by tenant and id.

    `paused` are the tenants to whose endpoints nothing is sent; of those, nothing new of the ones
    in `erased` is kept.
    """

    def __init__(self) -> None:
        self.paused: set[str] = set()
        self.erased: set[str] = set()
        self._by_tenant: dict[str, dict[str, Endpoint]] = {}
        self._courses: dict[bytes, Course] = {}  # as of the last commit, of those that changed
        self._wanting = BoundedCache[tuple[str, str, str], tuple[Endpoint, ...]](_MOST_WANTING)

    def restored(self, store: DeliveryStore, aborted: bool) -> None:
        """Load all of them; `aborted` says that nothing since the last commit counts.

        Their courses stay, or are those of the last commit.
        """
        before, self._by_tenant = self._by_tenant, {}
        courses = self._courses if aborted else {}
        self._wanting.clear()
        tenants = {key.decode(): marks for key, marks in store.marked(TENANT)}
        self.paused = set(tenants)
        self.erased = {tenant_id for tenant_id, marks in tenants.items() if _ERASED in marks}
        states = {key: codec.ENDPOINT_STATE.decode(value) for key, value in store.marked(STATE)}
        for key, value in store.marked(ENDPOINT):
            try:
                endpoint = _opened(value, states.get(key))
            except PoisonRecord as error:
                tenant_id, id_ = split(key)
                _unusable(tenant_id, id_, error)
                continue
            known = before.get(endpoint.tenant_id, {}).get(endpoint.id)
            if key in courses:
                endpoint.course = courses[key]
            elif known is not None and known.record == endpoint.record:
                endpoint.course = known.course
            self._put(endpoint)

    def committed(self) -> None:
        self._courses.clear()

    def note_course(self, endpoint: Endpoint) -> None:
        """Remember the course of an endpoint, which changes now."""
        self._courses.setdefault(join(endpoint.tenant_id, endpoint.id), endpoint.course)

    def __iter__(self) -> Iterator[Endpoint]:
        return (each for named in self._by_tenant.values() for each in named.values())

    def get(self, tenant_id: str, endpoint_id: str) -> Endpoint | None:
        return self._by_tenant.get(tenant_id, {}).get(endpoint_id)

    def of(self, tenant_id: str) -> list[Endpoint]:
        return list(self._by_tenant.get(tenant_id, {}).values())

    def takes(self, attempt: Attempt) -> bool:
        """Whether an attempt that was chosen before may still be sent; any thread may ask.

        It may not after a change of its endpoint, and while the endpoint's circuit is open. A test
        goes out whatever the state of its endpoint is.
        """
        row = attempt.row
        endpoint = self.get(row.tenant_id, row.endpoint_id)
        if endpoint is None or endpoint.record != attempt.endpoint:
            return False
        if row.is_test:
            return True
        open_ = endpoint.state.circuit == OPEN and not attempt.probe
        return not (open_ or endpoint.closed_because or row.tenant_id in self.paused)

    def wanting(self, message: Outgoing) -> tuple[Endpoint, ...]:
        """The endpoints that get a message, whether or not they are enabled."""
        if message.tenant_id not in self._by_tenant:
            return ()
        key = message.tenant_id, message.source, message.type
        found = self._wanting.get(key)
        if found is None:
            found = self._find_wanting(*key)
            self._wanting.put(key, found, sum(map(len, key)) + _PLACE_BYTES * len(found))
        return found

    def apply(self, record: Record, store: DeliveryStore) -> Applied:
        """Fold in a record of `tenants`.

        An endpoint that was removed, or that is not enabled any more, is marked to have its rows
        parked. A record that cannot be used is logged, and leaves the endpoint as it was: a dead
        letter would keep its sealed secrets past the tenant's erasure.
        """
        address = _address(record.key)
        if address is None:
            return Applied()
        tenant_id, kind, id_ = address
        if kind == "endpoint":
            try:
                return self._apply_endpoint(tenant_id, id_, record, store)
            except PoisonRecord as error:
                _unusable(tenant_id, id_, error)
                return Applied()
        return self._apply_tenant(tenant_id, kind, record, store)

    def _apply_endpoint(
        self, tenant_id: str, id_: str, record: Record, store: DeliveryStore
    ) -> Applied:
        place = join(tenant_id, id_)
        if record.value is None:
            self._remove(tenant_id, id_, store)
            return Applied()
        if tenant_id in self.erased:
            return Applied()
        before = self.get(tenant_id, id_)
        since = record.timestamp if before is None else before.since
        endpoint = made(record.value, since, before.state if before else None)
        if (endpoint.tenant_id, endpoint.id) != (tenant_id, id_):
            raise PoisonRecord("misaddressed", "the record's key names something else")
        if before is not None:
            self.note_course(before)
            _carry_over(before, endpoint)
        store.queue.put(ENDPOINT + place, _TIME.pack(since) + record.value)
        if before is None or endpoint.state != before.state:
            store.put_state(endpoint.state)
        if endpoint.closed_because is not None:
            store.queue.put(PARKING + place, b"")
        self._put(endpoint)
        self._wanting.clear()
        opened = (before is None or before.closed_because) and not endpoint.closed_because
        asks = before is None or endpoint.filters != before.filters
        return Applied((endpoint,), bool(opened), bool(opened) or asks)

    def _remove(self, tenant_id: str, id_: str, store: DeliveryStore) -> None:
        removed = self._by_tenant.get(tenant_id, {}).pop(id_, None)
        if removed is None:
            return
        self.note_course(removed)
        self._wanting.clear()
        place = join(tenant_id, id_)
        store.queue.delete(ENDPOINT + place)
        store.queue.put(PARKING + place, b"")
        store.drop_state(tenant_id, id_)

    def _apply_tenant(
        self, tenant_id: str, kind: str, record: Record, store: DeliveryStore
    ) -> Applied:
        before = store.queue.get(TENANT + tenant_id.encode()) or b""
        erased = _ERASED in before or (kind == "erasure" and record.value is not None)
        disabled = _DISABLED in before
        if kind == "tenant":
            disabled = record.value is not None and _is_disabled(tenant_id, record.value)
        marks = _DISABLED * disabled + _ERASED * erased
        if marks == before:
            return Applied()
        key = TENANT + tenant_id.encode()
        store.queue.put(key, marks) if marks else store.queue.delete(key)
        (self.paused.add if marks else self.paused.discard)(tenant_id)
        if _ERASED in marks and _ERASED not in before:
            self.erased.add(tenant_id)
            store.queue.put(ERASING + tenant_id.encode(), b"")
            for endpoint in self.of(tenant_id):
                self._remove(tenant_id, endpoint.id, store)
        return Applied(tuple(self.of(tenant_id)))

    def _put(self, endpoint: Endpoint) -> None:
        self._by_tenant.setdefault(endpoint.tenant_id, {})[endpoint.id] = endpoint

    def _find_wanting(self, tenant_id: str, source: str, type_: str) -> tuple[Endpoint, ...]:
        return tuple(
            endpoint
            for endpoint in self.of(tenant_id)
            if endpoint.id != CALLBACKS
            and _pattern(endpoint.settings.events).match(type_)
            and _pattern(endpoint.settings.sources).match(source)
        )


@lru_cache(maxsize=10_000)
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    return matcher(globs)


def _carry_over(before: Endpoint, endpoint: Endpoint) -> None:
    """Give an endpoint what is known from before its new settings, as far as it still holds."""
    endpoint.window = before.window
    if endpoint.settings.rate == before.settings.rate:
        endpoint.next_at = before.next_at
    rotated = endpoint.record.body == before.record.body
    enabled = before.closed_because and endpoint.settings.enabled and not rotated
    moved = endpoint.settings.url != before.settings.url
    if enabled or moved:
        endpoint.state = enabled_anew(endpoint.state, endpoint.record.updated_at)


def _opened(value: bytes, state: EndpointState | None) -> Endpoint:
    since: int = _TIME.unpack_from(value)[0]
    return made(value[_TIME.size :], since, state)


def _unusable(tenant_id: str, endpoint_id: str, error: PoisonRecord) -> None:
    log.error(
        "an endpoint's record cannot be used, and is ignored: set the endpoint again",
        tenant_id=tenant_id,
        endpoint_id=endpoint_id,
        reason=str(error),
    )


def _is_disabled(tenant_id: str, value: bytes) -> bool:
    try:
        return codec.TENANT.decode(value).disabled
    except PoisonRecord as error:
        log.error(
            "a tenant's record cannot be read, its deliveries wait: set the tenant again",
            tenant_id=tenant_id,
            error=str(error),
        )
        return True


def _address(key: bytes | None) -> tuple[str, str, str] | None:
    """Tenant, kind and id of a record; None for one that does not concern this stage.

    A record with a key of another form is skipped: its value may be a sealed secret, and a dead
    letter would keep that past its tenant's erasure.
    """
    try:
        tenant_id, kind, id_ = split(key or b"")
    except ValueError:
        return None
    return (tenant_id, kind, id_) if kind in ("endpoint", "tenant", "erasure") else None
