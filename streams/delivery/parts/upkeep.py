"""Work on many rows, done in bounded parts by the punctuations: parking, recovering, deleting.

Each kind of work is a key in the store `queue`, so it goes on after a restart. The part looks for
such keys only when there may be one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import ClassVar

from streams.delivery.part import Part
from streams.delivery.shared import Shared
from streams.delivery.step import ERASING, PARKING, RECOVERY, Step, parked
from streams.delivery.store import MESSAGE
from streams.errors import PoisonRecord
from streams.runtime.part import handles
from streams.serde.codec import DELIVERY, DELIVERY_COMMAND
from streams.serde.delivery_records import (
    RECOVER,
    Delivery,
    DeliveryCommand,
    EndpointState,
    Recovery,
)
from streams.serde.delivery_states import ENDPOINT_REMOVED
from streams.serde.keys import SEPARATOR, after, split

_CURSOR = b"c"
_CHANGED = 200
"""How many rows one part changes: a transaction of thousands would not end in time."""
_LOOKED_AT = 3_000
_BEHIND = b"\1"
"""Behind a tenant's id, it follows all keys of that tenant, and precedes those of others."""


class Upkeep(Part):
    """Goes on with whatever work there is, a part in each punctuation; begins recoveries."""

    keys: ClassVar = {
        PARKING: "endpoints whose rows have to be parked",
        RECOVERY: "commands of recoveries that are not finished",
        _CURSOR: "the row behind which each recovery goes on",
        ERASING: "tenants whose rows and messages have to be deleted, and where to go on",
    }

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._next = b""  # the key from which to look for work

    @handles(RECOVER)
    def recover(self, step: Step, command: DeliveryCommand) -> None:
        """Begin to send rows of an endpoint again; a command that came before begins nothing.

        Raises:
            PoisonRecord: the tenant has no such endpoint, or it is disabled.
        """
        place = command.tenant_id, command.endpoint_id
        endpoint = self.shared.endpoints.get(*place)
        if endpoint is None:
            raise PoisonRecord("endpoint_unknown", f"no endpoint {command.endpoint_id} to recover")
        if endpoint.closed_because is not None:
            raise PoisonRecord(
                "endpoint_disabled",
                f"endpoint {command.endpoint_id} is disabled: enable it, then recover it",
            )
        if step.store.asked_before(*place, command.command_id, self.shared.rules.keep_ms):
            return
        # Rows have the broker's time: a recovery without an end takes the rows of now by its clock.
        step.recover(replace(command, at=step.now + 1))

    def tick(self, step: Step) -> None:
        """Do a part of the work: tenants take turns, and the work of one is done in its order."""
        if not self.shared.has_work:
            return
        for start in (self._next, b""):
            for mark, work in _WORK:
                found = step.store.queue.range(max(start, mark), after(mark))
                for key, value in islice(found, 1):
                    tenant_id = key[len(mark) :].partition(SEPARATOR)[0]
                    self._next = mark + tenant_id + _BEHIND
                    work(key[len(mark) :], value, step)
                    return
        step.on_undo(self.shared.begin_work)
        self.shared.has_work = False

    def rests(self, until: int) -> bool:
        """Whether no work on many rows is left."""
        return not self.shared.has_work


def _park(place: bytes, _: bytes, step: Step) -> None:
    """Park rows of an endpoint that is disabled or gone; an enabled one keeps what is left."""
    tenant_id, endpoint_id = split(place)
    endpoint = step.shared.endpoints.get(tenant_id, endpoint_id)
    because = ENDPOINT_REMOVED if endpoint is None else endpoint.closed_because
    # A disabled endpoint can be tested.
    ids = step.rows.pending_of(tenant_id, endpoint_id, _CHANGED, tests=endpoint is None)
    for id_ in ids if because else ():
        row = step.rows.get(id_)
        if row is not None and because is not None:
            step.rows.put(parked(row, because, step.now), row)
    if because is None or len(ids) < _CHANGED:
        step.store.queue.delete(PARKING + place)
        if endpoint is not None:
            step.shared.ready.turn(endpoint)


def _recover(key: bytes, value: bytes, step: Step) -> None:
    command, store = DELIVERY_COMMAND.decode(value), step.store
    endpoint = step.shared.endpoints.get(command.tenant_id, command.endpoint_id)
    cursor = store.queue.get(_CURSOR + key) or b""
    wanted, looked_at = list[Delivery](), 0
    if endpoint is not None and endpoint.closed_because is None:
        for id_, row in islice(step.rows.behind(cursor), _LOOKED_AT):
            looked_at, cursor = looked_at + 1, id_
            if command.endpoint_id.encode() not in row:
                continue  # most rows need not be decoded
            if _matches(found := DELIVERY.decode(row), command):
                wanted.append(found)
            if len(wanted) == _CHANGED:
                break
    for each in sorted(wanted, key=lambda row: row.order):
        step.drive_anew(each, command.command_id)
    finished = looked_at < _LOOKED_AT and len(wanted) < _CHANGED
    if finished:
        store.queue.delete(RECOVERY + key)
        store.queue.delete(_CURSOR + key)
    else:
        store.queue.put(_CURSOR + key, cursor)
    if endpoint is not None:
        state = _progress(endpoint.state, command, len(wanted), finished, step.now)
        endpoint = replace(endpoint, state=state)
        step.put_endpoint(endpoint)
        step.probe_now(endpoint) if finished else step.shared.ready.turn(endpoint)


def _progress(
    state: EndpointState, command: DeliveryCommand, recovered: int, finished: bool, now: int
) -> EndpointState:
    known = state.recovery
    before = known.recovered if known and known.command_id == command.command_id else 0
    recovery = Recovery(
        command.command_id,
        command.since or 0,
        command.until or command.at,
        command.statuses,
        before + recovered,
        now if finished else None,
    )
    return replace(state, recovery=recovery, updated_at=now)


def _matches(row: Delivery, command: DeliveryCommand) -> bool:
    until = command.at if command.until is None else command.until
    return (
        (row.tenant_id, row.endpoint_id) == (command.tenant_id, command.endpoint_id)
        and row.status in command.statuses
        and not row.is_test
        and (command.since or 0) <= row.created_at < until
        and row.command_id != command.command_id
    )


def _erase(key: bytes, cursor: bytes, step: Step) -> None:
    """Delete rows and messages of an erased tenant; the value is where to go on."""
    tenant_id, store = key.decode(), step.store
    part, theirs = 0, list[Delivery]()
    for id_, value in islice(step.rows.behind(cursor), _LOOKED_AT):
        part, cursor = part + 1, id_
        if key in value and (row := DELIVERY.decode(value)).tenant_id == tenant_id:
            theirs.append(row)
        if len(theirs) == _CHANGED:
            break
    for row in theirs:
        step.rows.delete(row)
    if part == _LOOKED_AT or len(theirs) == _CHANGED:
        store.queue.put(ERASING + key, cursor)
        return
    prefix = MESSAGE + key + SEPARATOR
    messages = [k for k, _ in islice(store.queue.range(prefix, after(prefix)), _CHANGED)]
    for message in messages:
        store.queue.delete(message)
    if len(messages) < _CHANGED:
        store.queue.delete(ERASING + key)


_WORK = ((PARKING, _park), (RECOVERY, _recover), (ERASING, _erase))
"""In the order of their marks."""
