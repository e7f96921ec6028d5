"""Bodies of the calls on replays of events."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from streams.api.fields import Body, Moment, Name, noted
from streams.api.refusal import invalid
from streams.http.moments import milliseconds
from streams.serde.ids import partition_for
from streams.serde.replay_records import ReplayAsked, ReplayRange
from streams.topology.model import Topology

MAX_RATE = 10_000.0
_QUIET = "batch"
"""The priority of a replay's jobs, if the topology declares it: the jobs of now go first."""

Glob = Annotated[str, Field(min_length=1, max_length=200)]
Offset = Annotated[int, Field(ge=0, lt=2**63)]
Range = Annotated[tuple[Offset, Offset | None], Field(strict=False)]
Partition = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,4})$")]


class ReplayEventsRequest(Body):
    """Body of `POST /v1/replays`: which events, and what they get.

    Times are RFC 3339 and mean when a broker took the event in, from `since` until before `until`.
    `offsets` has `[first, end]` for partitions of `events`, the end excluded, or null. Each event
    gets a job of the type `job`, or with `route` one as the routes of now say. `rate` is in jobs a
    second.
    """

    tenant_id: Name | None = None
    source: Name | None = None
    event_type: Glob | Annotated[list[Glob], Field(min_length=1, max_length=50)] | None = None
    subject: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    offsets: Annotated[dict[Partition, Range], Field(min_length=1)] | None = None
    job: Name | None = None
    route: bool = False
    priority: Name | None = None
    rate: Annotated[float, Field(ge=0.1, le=MAX_RATE)] = 100.0
    note: Annotated[str, noted("must say why these events get jobs once more")] | None = None
    dry_run: bool = False

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.job is not None and self.route:
            raise ValueError("job and route exclude each other: give one of them")
        if self.dry_run:
            return self
        if self.note is None:
            raise ValueError("note must say why these events get jobs once more")
        if self.job is None and not self.route:
            raise ValueError(
                "give a job type in `job`, or `route`: true for the jobs that the routes of now say"
            )
        return self

    def asked(self, topology: Topology, now: int) -> ReplayAsked:
        """Return the replay as it is kept; `now` in milliseconds.

        Raises:
            Refusal: 422 for times that hold no event, an unknown priority or partition.
        """
        since, until = (None if t is None else milliseconds(t) for t in (self.since, self.until))
        if since is not None and since > now:
            came = f"{self.since} is in the future: no event came since"
            raise invalid("since", came)
        if since is not None and until is not None and until <= since:
            raise invalid("until", "must be after since")
        ranges = tuple(
            sorted(
                (ReplayRange(int(p), *of) for p, of in (self.offsets or {}).items()),
                key=lambda each: each.partition,
            )
        )
        _check(ranges, self.tenant_id, topology)
        types = (self.event_type,) if isinstance(self.event_type, str) else self.event_type or ()
        return ReplayAsked(
            self.note or "",
            self.tenant_id,
            self.source,
            tuple(types),
            self.subject,
            since,
            until,
            ranges,
            self.job,
            self._priority(topology),
            self.rate,
            self.digest(),
        )

    def _priority(self, topology: Topology) -> str:
        declared = list(topology.priorities)
        if self.priority is None:
            return _QUIET if _QUIET in declared else topology.default_priority
        if self.priority not in declared:
            known = ", ".join(declared)
            raise invalid("priority", f"{self.priority!r} is not declared: choose of {known}")
        return self.priority


class StopRequest(Body):
    """Body of `DELETE /v1/replays/{id}`."""

    note: Annotated[str, noted("must say why it is stopped")] = "stopped by the operator"


def _check(ranges: tuple[ReplayRange, ...], tenant_id: str | None, topology: Topology) -> None:
    partitions = range(topology.partitions)
    if tenant_id is not None:
        home = partition_for(tenant_id, topology.partitions)
        partitions = range(home, home + 1)
    for each in ranges:
        name = f"offsets.{each.partition}"
        if each.partition not in partitions:
            whose = "of events" if tenant_id is None else f"with events of {tenant_id!r}"
            there = " to ".join(map(str, sorted({partitions[0], partitions[-1]})))
            raise invalid(name, f"there is no such partition {whose}: give {there}")
        if each.end is not None and each.end <= each.first:
            raise invalid(name, "its end must be after its first offset")
