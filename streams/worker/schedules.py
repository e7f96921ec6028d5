"""What `@app.schedule` declares: schedules of an application's job types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from streams import user_json
from streams.errors import ConfigError, PermanentError
from streams.http.moments import milliseconds
from streams.schedules.definition import ID, definition
from streams.schedules.timetable import WrongSchedule
from streams.serde.records import DeclaredSchedule, ScheduleSpec

if TYPE_CHECKING:
    from streams.worker.job_types import JobType

ALL_TENANTS = "*"
_MOST_BYTES = 700 * 1024
"""Of all schedules of an application: they travel in one record."""
_EACH_BYTES = 512
"""A generous estimate of what a schedule takes beside its input."""

Moment = str | datetime
"""An RFC 3339 time, or a datetime with its zone."""


@dataclass(slots=True)
class Declaration:
    """One `@app.schedule`; its job is named, or is that of the function that it decorates."""

    id: str | None
    job: str | None
    tenants: tuple[str, ...]
    spec: ScheduleSpec
    function: object = None

    def decorates(self, function: object, types: Sequence[str]) -> None:
        """Note the function, and its job type once that is declared."""
        self.function = function
        if self.job is None and types:
            self.job = types[0]


def declaration(
    id: str | None,
    job: str | None,
    tenants: str | Iterable[str],
    input: object,
    at: Moment | None,
    from_: Moment | None,
    until: Moment | None,
    **fields: Any,
) -> Declaration:
    """A checked declaration; `fields` are those of `definition`.

    Raises:
        ConfigError: a field is wrong; the message says which, and what to write instead.
    """
    name = id or job or fields.get("cron") or "?"
    if id is not None and not ID.fullmatch(id):
        told = "use 1 to 128 letters, digits, '_', '.', ':' or '-', first a letter or digit"
        raise ConfigError(f"schedule id={id!r}: {told}")
    whom = (tenants,) if isinstance(tenants, str) else tuple(tenants)
    if not whom or not all(isinstance(each, str) and each for each in whom):
        raise ConfigError(f"schedule {name!r}: tenants={tenants!r}: name tenants, or '*' for each")
    try:
        text = user_json.write({} if input is None else input).decode()
        fields |= {"at": _ms(at), "starts_at": _ms(from_), "ends_at": _ms(until)}
        spec = definition(job or "", text, **fields)
    except WrongSchedule as error:
        raise ConfigError(f"schedule {name!r}: {error.field}: {error.message}") from None
    except (TypeError, ValueError) as error:
        raise ConfigError(f"schedule {name!r}: {error}") from None
    return Declaration(id, job, whom, spec)


def declared(
    declarations: Sequence[Declaration], jobs: Mapping[str, JobType]
) -> tuple[DeclaredSchedule, ...]:
    """The schedules of an application with its job types.

    Raises:
        ConfigError: one has no job type of the application, or an input that does not fit its type,
            two have one id, or all together are too large.
    """
    found: dict[str, list[DeclaredSchedule]] = {}
    for each in declarations:
        job = _job_of(each, jobs)
        id_ = each.id or job
        if id_ in found:
            raise ConfigError(f"two schedules have the id {id_!r}: give one another, with id=")
        spec = replace(each.spec, job=job)
        _check_input(spec.input, id_, jobs[job])
        found[id_] = [DeclaredSchedule(id_, tenant, spec) for tenant in each.tenants]
    schedules = tuple(each for several in found.values() for each in several)
    if sum(len(each.spec.input.encode()) + _EACH_BYTES for each in schedules) > _MOST_BYTES:
        most = f"{_MOST_BYTES // 1024} KiB"
        raise ConfigError(
            f"the schedules with their inputs are larger than {most}: a schedule counts once for "
            "each tenant that it names"
        )
    return schedules


def _check_input(text: str, schedule_id: str, job: JobType) -> None:
    model = job.types.read().input
    try:
        if model is not None:
            model.read(text)
    except PermanentError as error:
        raise ConfigError(f"schedule {schedule_id!r} of {job.name!r}: {error}") from None


def _job_of(each: Declaration, jobs: Mapping[str, JobType]) -> str:
    if each.job is None:
        raise ConfigError(
            f"schedule {each.id or each.spec.cron or 'without an id'!r} decorates no handler: put "
            "it on a function with @app.job, or name a type with job="
        )
    if each.job not in jobs:
        raise ConfigError(
            f"schedule of {each.job!r}: no such job type; declare it with @app.job({each.job!r})"
        )
    return each.job


def _ms(moment: Moment | None) -> int | None:
    if moment is None:
        return None
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError(f"{moment!r} has no time zone: give it one")
        moment = moment.isoformat()
    return milliseconds(moment)
