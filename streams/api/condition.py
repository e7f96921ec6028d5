"""The condition of a change: it is made only if its thing is as the caller has seen it.

A tag names a state of the settings of a thing; `GET` answers it as `ETag`.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.api.refusal import Refusal
from streams.api.remedy import Remedy
from streams.api.rows.table import Row

ANY = "*"


@dataclass(frozen=True, slots=True)
class Condition:
    """What `If-Match` and `If-None-Match: *` ask of the thing that has `key`; `look` shows it.

    `tags` are those of `If-Match`, or `ANY`; None if there is no such header. With `is_new`,
    nothing may be there yet.
    """

    key: Row
    tags: frozenset[str] | None
    is_new: bool
    look: Remedy

    def require(self, present: str | None) -> None:
        """Check the present tag of the thing, or None if there is none.

        Raises:
            Refusal: 412, the thing is another than the caller has seen.
        """
        if self.is_new and present is not None:
            raise self.failed("it exists already", present)
        if self.tags is None or (present is not None and self.tags & {ANY, present}):
            return
        changed = "there is none" if present is None else "it was changed since it was read"
        raise self.failed(changed, present)

    def failed(self, why: str, present: str | None) -> Refusal:
        """Return the 412 for a thing that has this tag now."""
        detail = f"{why}: nothing was written. See it with {self.look}, then decide anew"
        etag = None if present is None else quoted(present)
        return Refusal(412, "precondition-failed", detail, remedy=self.look, etag=etag)


def quoted(tag: str) -> str:
    """Return a tag as headers have it."""
    return f'"{tag}"'
