"""Work on many rows, done in bounded parts by the punctuations: parking, recovering, deleting.

Each kind of work is a key in the store `queue`, so it goes on after a restart. `Upkeep` looks for
such keys only when there may be one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from streams.delivery import queue
from streams.delivery.store import CURSOR, ERASING, MESSAGE, PARKING, RECOVERY, TEST
from streams.delivery.sweep import Sweep
from streams.delivery.transitions import Transitions, parked
from streams.serde.codec import DELIVERY, DELIVERY_COMMAND
from streams.serde.delivery_records import Delivery, DeliveryCommand, EndpointState, Recovery
from streams.serde.delivery_states import ENDPOINT_REMOVED
from streams.serde.keys import SEPARATOR, after, split

_CHANGED = 200
"""How many rows one part changes: a transaction of thousands would not end in time."""
_LOOKED_AT = 3_000
_SWEEP_SECONDS = 0.1
_BEHIND = b"\1"
"""Behind a tenant's id, it follows all keys of that tenant, and precedes those of others."""


class Upkeep:
    """Goes on with whatever work there is, a part in each punctuation."""

    def __init__(self) -> None:
        self._pending = True
        self._next = b""  # the key from which to look for work
        self._sweeping = Sweep()
        self._sweep_due = 0.0

    def restored(self) -> None:
        """Look for work again; the next round over the rows ends what a rollback took back."""
        self._pending = True

    def begin(self) -> None:
        """Note that there may be work."""
        self._pending = True

    def go_on(self, steps: Transitions) -> bool:
        """Do a part of the work; returns whether anything was written."""
        done = self._pending and self._part(steps)
        return self._sweep(steps) or done

    def _part(self, steps: Transitions) -> bool:
        for start in (self._next, b""):
            for mark, work in _WORK:
                found = steps.store.queue.range(max(start, mark), after(mark))
                for key, value in islice(found, 1):
                    # Tenants take turns, and what one asked for is done in its order.
                    tenant_id = key[len(mark) :].partition(SEPARATOR)[0]
                    self._next = mark + tenant_id + _BEHIND
                    work(key[len(mark) :], value, steps)
                    return True
        self._pending = False
        return False

    def _sweep(self, steps: Transitions) -> bool:
        if steps.store.ctx.monotonic < self._sweep_due:
            return False
        self._sweep_due = steps.store.ctx.monotonic + _SWEEP_SECONDS
        return self._sweeping.go_on(steps)


def recovery_key(command: DeliveryCommand) -> bytes:
    """What follows the mark in the keys of a recovery; those of one endpoint are in their order."""
    parts = (command.tenant_id, command.endpoint_id, f"{command.at:020}", command.command_id)
    return SEPARATOR.join(part.encode() for part in parts)


def _park(place: bytes, _: bytes, steps: Transitions) -> None:
    """Park rows of an endpoint that is disabled or gone; an enabled one keeps what is left."""
    tenant_id, endpoint_id = split(place)
    endpoint = steps.endpoints.get(tenant_id, endpoint_id)
    because = ENDPOINT_REMOVED if endpoint is None else endpoint.closed_because
    ids = list(queue.rows_of(steps.store.queue, tenant_id, endpoint_id, _CHANGED))
    if endpoint is None:  # a disabled endpoint can be tested
        tests = steps.store.marked(TEST + place + SEPARATOR)
        ids += [id_.decode() for id_, _ in islice(tests, _CHANGED)]
    for id_ in ids if because else ():
        row = steps.store.row(id_)
        if row is not None and because is not None:
            steps.move(row, parked(row, because, steps.now))
    if because is None or len(ids) < _CHANGED:
        steps.store.queue.delete(PARKING + place)
        if endpoint is not None:
            steps.turn(endpoint)


def _recover(key: bytes, value: bytes, steps: Transitions) -> None:
    command, store = DELIVERY_COMMAND.decode(value), steps.store
    endpoint = steps.endpoints.get(command.tenant_id, command.endpoint_id)
    cursor = store.queue.get(CURSOR + key) or b""
    wanted, looked_at = list[Delivery](), 0
    if endpoint is not None and endpoint.closed_because is None:
        for id_, row in islice(store.rows_behind(cursor), _LOOKED_AT):
            looked_at, cursor = looked_at + 1, id_
            if command.endpoint_id.encode() not in row:
                continue  # most rows need not be decoded
            if _matches(found := DELIVERY.decode(row), command):
                wanted.append(found)
            if len(wanted) == _CHANGED:
                break
    for each in sorted(wanted, key=lambda row: row.order):
        steps.drive_anew(each, command.command_id)
    finished = looked_at < _LOOKED_AT and len(wanted) < _CHANGED
    if finished:
        store.queue.delete(RECOVERY + key)
        store.queue.delete(CURSOR + key)
    else:
        store.queue.put(CURSOR + key, cursor)
    if endpoint is not None:
        endpoint.state = _progress(endpoint.state, command, len(wanted), finished, steps.now)
        store.put_state(endpoint.state)
        steps.probe_now(endpoint) if finished else steps.turn(endpoint)


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


def _erase(key: bytes, cursor: bytes, steps: Transitions) -> None:
    """Delete rows and messages of an erased tenant; the value is where to go on."""
    tenant_id, store = key.decode(), steps.store
    part, theirs = 0, list[Delivery]()
    for id_, value in islice(store.rows_behind(cursor), _LOOKED_AT):
        part, cursor = part + 1, id_
        if key in value and (row := DELIVERY.decode(value)).tenant_id == tenant_id:
            theirs.append(row)
        if len(theirs) == _CHANGED:
            break
    for row in theirs:
        steps.delete(row)
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
