"""One change of a row or of an endpoint, which everything that is derived from them follows."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Change(NamedTuple, Generic[T]):
    """What there was before and what there is after; None: nothing.

    `waits` says that a row waits behind others in its lane.
    """

    before: T | None
    after: T | None
    waits: bool = False

    def reversed(self) -> Change[T]:
        """The change that takes this one back."""
        return Change(self.after, self.before)
