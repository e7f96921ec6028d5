"""The contract of a part: one concern of the delivery stage, with its state and its time.

What is derived from rows and endpoints moves in `Shared` alone, with each change and each change
that is undone. Other state of a part that is not in a store is reversed by `Step.on_undo`.
"""

from __future__ import annotations

from streams.delivery.endpoint import Endpoint
from streams.delivery.shared import Shared
from streams.delivery.step import Step
from streams.delivery.store import DeliveryStore
from streams.runtime.part import Declaration
from streams.serde.delivery_records import Outgoing


class Part(Declaration):
    """One concern of one partition; each hook does nothing unless a part defines it."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    def restored(self, store: DeliveryStore) -> None:
        """The stores are complete: load what does not follow from rows and endpoints."""

    def tick(self, step: Step) -> None:
        """Time has passed: do a bounded part of what is due."""

    def rests(self, until: int) -> bool:
        """Whether `tick` has nothing to do until a time in milliseconds, if no record comes."""
        return True

    def announced(self, step: Step, message: Outgoing, happened: int) -> None:
        """A message is for the endpoints that want it; `happened` is a broker's time."""

    def wants_more(self, step: Step, endpoint: Endpoint, since: int, opened: int) -> None:
        """An endpoint wants more than before since a time in milliseconds.

        From `opened` on it also wants what was parked because it was closed; 0: nothing.
        """

    def closed(self) -> None:
        """The partition is another process's, or the process ends."""
