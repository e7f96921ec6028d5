"""Schedules in the code of applications: each tenant gets those that are declared for it.

At its start a worker sends all schedules of its application. That set replaces the former one of
the application's name: what is gone is removed, what is the same goes on as it was, and what
differs begins a new generation. A step looks at a bounded part of the tenants, so a set counts from
when the broker took it, and not from when a tenant gets it: no time in between is lost.

The store `parts` keeps, under `S`: `t` tenant for each tenant that is known, `a` application with
its last command, `u` tenant for those that are looked at next, with the time of their record, and
`c` with the tenant behind which a round over all of them goes on. `n` has the sets for which the
round is made (`new_sets`), and `f` what was fired late (`fired_times`).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import ClassVar

import structlog

from streams.closed_tenants import address_of
from streams.dispatcher import fired_times, new_sets, schedule_rows
from streams.dispatcher.new_sets import NewSet
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.schedule import changed, created, planned
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.errors import PoisonRecord
from streams.runtime.link import Rights
from streams.runtime.part import handles, reads
from streams.runtime.processor import Context, Record
from streams.schedules.definition import ID, check
from streams.schedules.timetable import WrongSchedule
from streams.serde.codec import COMMAND
from streams.serde.keys import after
from streams.serde.records import (
    Command,
    DeclaredSchedule,
    DeclareSchedules,
    ScheduleRow,
)

log = structlog.get_logger(__name__)

ALL_TENANTS = "*"
MOST_DECLARED = 1_000
"""How many schedules all applications together may declare for one tenant, or for all of them."""
_SPACE = b"S"
_KNOWN, _APP, _NEXT, _ROUND = _SPACE + b"t", _SPACE + b"a", _SPACE + b"u", _SPACE + b"c"
_TIME = struct.Struct(">Q")

Wanted = dict[str, tuple[str, DeclaredSchedule]]
"""The schedules of one tenant by id, each with its application."""


class DeclaredSchedules(Part):
    """Keeps the schedules of one partition's tenants as applications declare them."""

    keys: ClassVar = {_SPACE: "tenants, and what applications declare for them"}
    awaits_logs = True  # of several sets that are read again, the last one counts

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._declared: dict[str, tuple[DeclaredSchedule, ...]] = {}
        self._has_work = True

    def restored(self, ctx: Context) -> None:
        found = ctx.store("parts").range(_APP, after(_APP))
        bodies = [COMMAND.decode(value).body for _, value in found]
        self._declared = {b.app: b.schedules for b in bodies if isinstance(b, DeclareSchedules)}
        self._has_work = True

    @handles(DeclareSchedules)
    def declare(self, step: Step, command: Command, body: DeclareSchedules, at: int) -> None:
        """Replace what an application declares; the same set again changes nothing.

        Raises:
            PoisonRecord: one of the schedules cannot be, or is not the worker's to declare.
        """
        for each in body.schedules:
            _check(each)
        before = self._declared.get(body.app, ())
        self._check_rights(step, (*before, *body.schedules))
        if before == body.schedules:
            return
        self._check_number(body)
        step.on_undo(self._note, body.app, before)
        self._note(body.app, body.schedules)
        key = _APP + body.app.encode()
        if body.schedules:
            step.store.put(key, COMMAND.encode(command))
        else:
            step.store.delete(key)
        new_sets.note(step, body.app, at, body.schedules, before)
        step.store.put(_ROUND, b"")
        self._has_work = True

    @reads("tenants")
    def follow(self, step: Step, record: Record) -> None:
        """Note a new tenant, and one that was erased: the schedules of both follow."""
        address = address_of(record.key)
        if address is None or record.value is None:
            return
        tenant_id, kind, _ = address
        known = _KNOWN + tenant_id.encode()
        is_new = kind == "tenant" and step.store.get(known) is None
        if is_new and tenant_id not in self.shared.closed.erased:
            step.store.put(known, b"")
        elif kind != "erasure":
            return
        step.store.put(_NEXT + tenant_id.encode(), _TIME.pack(record.timestamp))
        self._has_work = True

    def tick(self, step: Step) -> None:
        """Look at some tenants: first at those that are new or erased, then at all in a round."""
        if not self._has_work:
            return
        step.on_undo(setattr, self, "_has_work", True)
        new = new_sets.found(step)
        tenants = _some(step, _NEXT, after(_NEXT))
        for key, value in tenants:
            came = _moment(step, value)
            begin = {app: new.get(app, NewSet(0)).not_before(came) for app in self._declared}
            if not self._follow(step, key[len(_NEXT) :].decode(), begin):
                return
            step.store.delete(key)
        if len(tenants) < AT_ONCE:
            self._has_work = self._go_round(step, new)

    def rests(self) -> bool:
        """Whether every tenant has what is declared for it."""
        return not self._has_work

    def _go_round(self, step: Step, new: Mapping[str, NewSet]) -> bool:
        """Go on with a round over all tenants; whether any is left."""
        behind = step.store.get(_ROUND)
        if behind is None:
            return False
        begin = new or dict.fromkeys(self._declared, NewSet(step.now))
        start = _KNOWN + behind + b"\0" if behind else _KNOWN
        known = _some(step, start, after(_KNOWN))
        for key, _ in known:
            if not self._follow(step, key[len(_KNOWN) :].decode(), begin):
                return True
            step.store.put(_ROUND, key[len(_KNOWN) :])
        if len(known) < AT_ONCE:
            step.store.delete(_ROUND)
            new_sets.done(step, new)
        return len(known) == AT_ONCE

    def _follow(self, step: Step, tenant_id: str, begin: Mapping[str, NewSet]) -> bool:
        """Give a tenant the schedules that it should have; False if the step has done enough.

        `begin` says from when on those of an application count that is new, or has changed. What a
        tenant lacks of another application was deleted there.
        """
        if tenant_id in self.shared.closed.erased:
            return self._erase(step, tenant_id)
        if step.looked[DeclaredSchedules] >= AT_ONCE:
            return False
        step.looked[DeclaredSchedules] += 1
        newest = max((each.at for each in begin.values()), default=step.now)
        wanted, others = self._wanted(tenant_id), dict[str, int]()
        for row in schedule_rows.declared_in(step, tenant_id):
            if row.app != wanted.get(row.schedule_id, ("",))[0]:
                step.looked[DeclaredSchedules] += 1
                fired_times.keep(step, row, newest)
                schedule_rows.delete(step, row)
                others[row.schedule_id] = max(newest, row.since)  # what it has fired is over
        for schedule_id, (app, each) in wanted.items():
            since = begin[app].since(each) if app in begin else None
            self._set(step, tenant_id, app, each, others.get(schedule_id, since))
        return True

    def _erase(self, step: Step, tenant_id: str) -> bool:
        count = schedule_rows.forget_tenant(step, tenant_id, AT_ONCE)
        step.looked[DeclaredSchedules] += count
        step.store.delete(_KNOWN + tenant_id.encode())
        fired_times.forget_tenant(step, tenant_id)
        return count < AT_ONCE

    def _set(
        self, step: Step, tenant_id: str, app: str, each: DeclaredSchedule, at: int | None
    ) -> None:
        """Create or change one schedule as of `at` (milliseconds; None: it may only be there)."""
        known = schedule_rows.find(step, tenant_id, each.schedule_id)
        if known is not None and known.app is None:
            _leave_out(known, app)
            return
        if at is None:
            return
        if known is None:
            at = fired_times.since(step, tenant_id, each.schedule_id, at)
        row = known or created(tenant_id, each.schedule_id, each.spec, app, app, at)
        row = changed(row, each.spec, app, at)
        if row != known:
            step.looked[DeclaredSchedules] += 1
            keep_ms = self.topology.finished_jobs_ms
            schedule_rows.put(step, planned(row, step.now, keep_ms))

    def _wanted(self, tenant_id: str) -> Wanted:
        return {
            each.schedule_id: (app, each)
            for app, schedules in sorted(self._declared.items())
            for each in schedules
            if each.tenant in (ALL_TENANTS, tenant_id)
        }

    def _check_rights(self, step: Step, schedules: Iterable[DeclaredSchedule]) -> None:
        if step.sender is None:
            return
        rights = self.shared.workers.roster.rights_of(step.sender)
        others = {each.tenant for each in schedules} - (rights.tenants or set())
        if rights.tenants is not None and others:
            told = ", ".join(sorted(others))
            raise PoisonRecord("not_allowed", f"this worker declares nothing for tenant {told}")
        types = {each.spec.job for each in schedules}
        denied = sorted(type_ for type_ in types if not self._may_have(rights, type_))
        if denied:
            told = ", ".join(denied)
            raise PoisonRecord("not_allowed", f"this worker declares no schedule of jobs {told}")

    def _may_have(self, rights: Rights, type_: str) -> bool:
        pool = self.topology.job_type(type_).pool
        return rights.allows_type(type_) and rights.allows_pool(pool)

    def _check_number(self, body: DeclareSchedules) -> None:
        """Check that each tenant keeps few enough: they are held in memory."""
        others = (sets for app, sets in self._declared.items() if app != body.app)
        count = Counter(each.tenant for each in chain(body.schedules, *others))
        tenants = {each.tenant for each in body.schedules}
        if any(count[tenant] > MOST_DECLARED for tenant in tenants):
            detail = f"more than {MOST_DECLARED:,} schedules are declared for one tenant"
            raise PoisonRecord("too_many_schedules", detail)

    def _note(self, app: str, schedules: tuple[DeclaredSchedule, ...]) -> None:
        self._declared[app] = schedules


def _check(each: DeclaredSchedule) -> None:
    if ID.fullmatch(each.schedule_id) is None:
        raise PoisonRecord("bad_id", f"{each.schedule_id!r} is no id of a schedule")
    try:
        check(each.spec)
    except WrongSchedule as error:
        raise PoisonRecord("schedule_wrong", f"{each.schedule_id}: {error}") from None


def _leave_out(row: ScheduleRow, app: str) -> None:
    log.warning(
        "a declared schedule is left out, because the tenant has one of this id: give the declared "
        "one another id",
        schedule_id=row.schedule_id,
        tenant_id=row.tenant_id,
        app=app,
    )


def _moment(step: Step, value: bytes) -> int:
    """A time that is kept; one that an earlier release kept has none."""
    moment: int = _TIME.unpack(value)[0] if value else step.now
    return moment


def _some(step: Step, start: bytes, end: bytes) -> list[tuple[bytes, bytes]]:
    return list(islice(step.store.range(start, end), AT_ONCE))
