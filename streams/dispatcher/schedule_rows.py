"""The rows of the store `schedules`, and their index.

The public topic `schedules` is the store's changelog. The keys of the index lie beside the rows
(`state/indexed`): `l` time tenant id says when a schedule is looked at, `a` tenant id lists those
that applications declare, and `z` release tenant id those whose times follow rules of a zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from streams.dispatcher.due import DueEntry, DueSpace
from streams.dispatcher.step import Step
from streams.errors import PoisonRecord
from streams.serde.codec import SCHEDULE_ROW
from streams.serde.keys import SEPARATOR, after, join, schedule_key, split
from streams.serde.records import ScheduleRow
from streams.state.indexed import INDEX, Index
from streams.state.store import Changes, KeyValueStore

_DECLARED, _RULES = INDEX + b"a" + SEPARATOR, INDEX + b"z" + SEPARATOR
_LOOK_PREFIX = INDEX + b"l"
_LOOK = DueSpace(_LOOK_PREFIX)


def derive(key: bytes, value: bytes) -> Changes:
    """The entries of a row that is read from the topic; one that is no schedule's row has none."""
    try:
        row = SCHEDULE_ROW.decode(value)
    except PoisonRecord:
        return {}
    return dict.fromkeys(_entries(row), b"") if key == _key(row) else {}


BY_TIME_AND_APP = Index("1", derive)


def find(step: Step, tenant_id: str, schedule_id: str) -> ScheduleRow | None:
    """A schedule as it is now."""
    value = _store(step).get(schedule_key(tenant_id, schedule_id))
    return None if value is None else SCHEDULE_ROW.decode(value)


def put(step: Step, row: ScheduleRow) -> None:
    """Write a schedule, which shows it to the operator."""
    before = find(step, row.tenant_id, row.schedule_id)
    old = {} if before is None else dict.fromkeys(_entries(before))
    new = {**dict.fromkeys(_entries(row), b""), _key(row): SCHEDULE_ROW.encode(row)}
    _store(step).put_many({**old, **new})


def delete(step: Step, row: ScheduleRow) -> None:
    """Remove a schedule, here and on `schedules`."""
    found = find(step, row.tenant_id, row.schedule_id) or row
    _store(step).put_many(dict.fromkeys((*_entries(found), _key(row))))


def to_look_at(step: Step, behind: bytes, limit: int) -> tuple[list[DueEntry], int | None]:
    """Some entries whose time has come, behind a key, and the time of the next one.

    It reads one entry more than are due, however many schedules there are.
    """
    start = behind + b"\0" if behind else _LOOK_PREFIX
    due: list[DueEntry] = []
    for key, value in _store(step).range(start, after(_LOOK_PREFIX)):
        entry = _LOOK.entry(key, value)
        if entry.at > step.now or len(due) == limit:
            return due, entry.at
        due.append(entry)
    return due, None


def drop_entry(step: Step, key: bytes) -> None:
    """Delete an entry of the index that belongs to no row any more."""
    _store(step).delete(key)


def declared_in(step: Step, tenant_id: str) -> Iterator[ScheduleRow]:
    """The schedules of a tenant that applications declare."""
    prefix = _DECLARED + join(tenant_id) + SEPARATOR
    return _named(step, [key for key, _ in _store(step).range(prefix, after(prefix))])


def forget_tenant(step: Step, tenant_id: str, limit: int) -> int:
    """Remove some schedules of a tenant; how many there were."""
    prefix = join(tenant_id) + SEPARATOR
    found = list(islice(_store(step).range(prefix, after(prefix)), limit))
    for key, value in found:
        _store(step).put_many(dict.fromkeys((*derive(key, value), key)))
    return len(found)


def of_other_rules(step: Step, release: str, limit: int) -> list[ScheduleRow]:
    """Some schedules whose times follow another release of the zones' rules than this one."""
    present = _RULES + join(release) + SEPARATOR
    spans = ((_RULES, present), (after(present), after(_RULES)))
    keys = (key for span in spans for key, _ in _store(step).range(*span))
    return list(_named(step, list(islice(keys, limit))))


def _named(step: Step, entries: list[bytes]) -> Iterator[ScheduleRow]:
    for entry in entries:
        row = find(step, *split(entry)[-2:])
        if row is not None:
            yield row


def _entries(row: ScheduleRow) -> Iterator[bytes]:
    name = row.tenant_id, row.schedule_id
    if row.look_at is not None and row.look_at >= 0:
        yield _LOOK.key(row.look_at, *name)
    if row.app is not None:
        yield _DECLARED + join(*name)
    if row.tzdata:
        yield _RULES + join(row.tzdata, *name)


def _key(row: ScheduleRow) -> bytes:
    return schedule_key(row.tenant_id, row.schedule_id)


def _store(step: Step) -> KeyValueStore:
    return step.ctx.store("schedules")
