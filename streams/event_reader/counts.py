"""Counts what a scan finds, and says what a person should know of the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from streams.event_reader.scan import MOST_TYPES, Found, Progress
from streams.event_reader.selection import Selection
from streams.event_reader.span import Span
from streams.http.moments import moment
from streams.topology.problems import near


@dataclass(slots=True)
class Counts:
    """Events by type, and by day in UTC as `2026-11-21`; types after the thousandth in one sum."""

    types: Counter[str] = field(default_factory=Counter)
    days: Counter[str] = field(default_factory=Counter)
    other_types: int = 0

    def add(self, found: Found) -> None:
        type_ = found.event.event_type
        if type_ in self.types or len(self.types) < MOST_TYPES:
            self.types[type_] += 1
        else:
            self.other_types += 1
        self.days[moment(found.at).date().isoformat()] += 1

    def json(self) -> dict[str, object]:
        """The sum, and both tables: types by number, days by date; `other_types` counts events."""
        return {
            "events": self.types.total() + self.other_types,
            "by_type": dict(self.types.most_common()),
            "other_types": self.other_types,
            "by_day": dict(sorted(self.days.items())),
        }


def notes(seen: Progress, where: Mapping[int, Span], selection: Selection) -> Iterator[str]:
    """Yield what was not counted: records that cannot be read, a purged time, a misspelled name."""
    if seen.unreadable:
        yield (
            f"{seen.unreadable} records cannot be read, and are not counted: install the version "
            "of Tidegate that wrote them, or a later one"
        )
    purged = any(span.first == span.oldest > 0 for span in where.values())
    if selection.since is not None and purged and seen.oldest_at is not None:
        yield (
            "the topic does not go back that far: the oldest record that it still has is of "
            f"{moment(seen.oldest_at).isoformat(timespec='seconds')}"
        )
    if selection.tenant_id is not None and not seen.types and seen.oldest_at is not None:
        yield f"no event that was read is of a tenant {selection.tenant_id!r}"
    all_are_known = 0 < len(seen.types) < MOST_TYPES
    for glob in selection.types:
        if all_are_known and not Selection(types=(glob,)).has_any(seen.types):
            yield f"no event has a type {glob!r}{near(glob, seen.types)}"
