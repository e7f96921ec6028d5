"""One endpoint as its partition's task knows it: settings, state, and what is being sent to it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from fnmatch import translate

from streams.delivery.in_flight import EndpointId
from streams.delivery.queue import sendable
from streams.errors import PoisonRecord
from streams.serde.codec import TENANT
from streams.serde.delivery_records import EndpointState
from streams.serde.delivery_states import CLOSED, ENDPOINT_DISABLED, OPEN, ParkedBecause
from streams.serde.records import TenantRecord
from streams.tenants.endpoints import LISTEN, EndpointSettings, endpoint_settings

WIDEST_WINDOW = 256
"""How many rows of one endpoint the sender may hold at once."""
_BURST = 0.1
"""The part of a rate's `count` that may be sent at once."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of one tenant.

    `since` is the broker's time when it was first seen, in milliseconds: it gets what happens
    later. `window` is how many of its rows the sender may have: 1 until the first success and after
    a failure (half as many if it was a callback's, or if the receiver rejected one message), then
    twice as many after each success. `failures` counts those of the receiver since the last
    success, and `opened` how often the circuit opened since then. `next_at` is when its rate lets
    the next row go, in milliseconds. `first` is the id of a row that a person retried while the
    circuit was open: it is the probe. No store holds these five.
    """

    record: TenantRecord
    settings: EndpointSettings
    since: int
    state: EndpointState
    window: int = 1
    failures: int = 0
    opened: int = 0
    next_at: float = 0.0
    first: str = ""

    @property
    def tenant_id(self) -> str:
        return self.record.tenant_id

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def place(self) -> EndpointId:
        return self.record.tenant_id, self.record.id

    @property
    def prefix(self) -> bytes:
        """What the keys of its rows in the queue begin with."""
        return sendable(self.tenant_id, self.id)

    @property
    def filters(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What it wants, as globs."""
        return self.settings.events, self.settings.sources

    @property
    def closed_because(self) -> ParkedBecause | None:
        """Why rows for it are parked; None if they are sent."""
        disabled = not self.settings.enabled or self.state.disabled_because is not None
        return ENDPOINT_DISABLED if disabled else None

    @property
    def has_circuit(self) -> bool:
        """Whether failures open its circuit; a developer at `tidegate listen` watches retries."""
        return self.id != LISTEN

    def probes(self, now: int) -> bool:
        """Whether the next attempt is the probe of an open circuit."""
        return self.state.circuit == OPEN and (self.state.open_until or 0) <= now

    @property
    def is_ordered(self) -> bool:
        return self.settings.ordering != "parallel"

    @property
    def is_recovering(self) -> bool:
        """Whether a recovery is not at its end yet."""
        recovery = self.state.recovery
        return recovery is not None and recovery.ended_at is None

    @property
    def proven(self) -> bool:
        """Whether it has taken messages lately."""
        return self.window > 1

    def room(self, handed: int, now: int) -> int:
        """How many more rows the sender may have; it has `handed` now, in milliseconds."""
        if self.state.circuit == OPEN and not self.probes(now):
            return 0
        window = 1 if self.state.circuit == OPEN else self.window
        return max(0, min(window - handed, self._allowed(now)))

    def charged(self, count: int, now: int) -> Endpoint:
        """The endpoint after so many of its rows were handed to the sender."""
        rate, next_at = self.settings.rate, self.next_at
        if count == 0 or (rate is None and not self.first):
            return self
        if rate is not None:
            earliest = now - 1000 * rate.seconds * _BURST
            next_at = max(next_at, earliest) + count * 1000 / rate.per_second
        return replace(self, next_at=next_at, first="")

    @property
    def free_at(self) -> int:
        """When the rate or the circuit lets the next row go, in milliseconds."""
        until = self.state.open_until if self.state.circuit == OPEN else None
        return max(math.ceil(self.next_at), until or 0)

    def changed(self, now: int, **values: object) -> Endpoint:
        """The endpoint with other values in its state, changed now."""
        state = replace(self.state, updated_at=now, **values)  # type: ignore[arg-type]
        return replace(self, state=state)

    def _allowed(self, now: int) -> int:
        rate = self.settings.rate
        if rate is None:
            return WIDEST_WINDOW
        earliest = now - 1000 * rate.seconds * _BURST
        free = (now - max(self.next_at, earliest)) / 1000 * rate.per_second
        return max(0, int(free) + (1 if self.next_at <= now else 0))


def made(value: bytes, since: int, state: EndpointState | None) -> Endpoint:
    """The endpoint that a record of `tenants` sets.

    Raises:
        PoisonRecord: the record cannot be used.
    """
    record = TENANT.decode(value)
    try:
        settings = endpoint_settings(record)
    except ValueError:  # pydantic's and orjson's errors are subclasses, and may quote the value
        raise PoisonRecord("bad_endpoint", "its settings cannot be used: set it again") from None
    state = state or new_state(record.tenant_id, record.id, record.updated_at)
    return Endpoint(record, settings, since, state)


def new_state(tenant_id: str, endpoint_id: str, at: int) -> EndpointState:
    """The state of an endpoint with which nothing is wrong."""
    return EndpointState(tenant_id, endpoint_id, CLOSED, None, None, None, None, None, at)


def enabled_anew(state: EndpointState, at: int) -> EndpointState:
    """The state once a person enabled an endpoint that was disabled, or gave it another URL."""
    return replace(new_state(state.tenant_id, state.endpoint_id, at), recovery=state.recovery)


def matcher(globs: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern that matches what one of the globs matches."""
    return re.compile("|".join(translate(glob) for glob in globs) or r"(?!)")
