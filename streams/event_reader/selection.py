"""Which events a person means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import translate

from streams.serde.records import Envelope


@dataclass(frozen=True)
class Selection:
    """Events by tenant, source, types (globs; none selects all), subject and time.

    Times are the broker's, in milliseconds since 1970: from `since` on and before `until`.
    """

    tenant_id: str | None = None
    source: str | None = None
    types: Sequence[str] = ()
    subject: str | None = None
    since: int | None = None
    until: int | None = None
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        globs = "|".join(translate(glob) for glob in self.types or ("*",))
        object.__setattr__(self, "_pattern", re.compile(globs))

    def has(self, event: Envelope, at: int) -> bool:
        """Whether an event of a record at a broker's time is selected."""
        return (
            self.tenant_id in (None, event.tenant_id)
            and self.source in (None, event.source)
            and self.subject in (None, event.subject)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
            and self._pattern.match(event.event_type) is not None
        )

    def has_any(self, types: Iterable[str]) -> bool:
        """Whether one of these types is selected."""
        return any(map(self._pattern.match, types))
