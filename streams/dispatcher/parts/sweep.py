"""Goes over all live jobs, a part in each punctuation, to correct what no command corrects.

Each part of the dispatcher says which jobs are due and mends them (`Part.is_due`, `Part.mend`). A
round begins at the start, every five minutes, and when a part asks for one.
"""

from __future__ import annotations

from itertools import islice
from typing import ClassVar

from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.routing import digest
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.runtime.processor import Context

_ROUTING = b"R"
_ROUND_SECONDS = 300.0
_LOOKED_AT = 500
"""How many live jobs one punctuation looks at while jobs are rerouted."""
_GLANCED_AT = 150
"""The same in an ordinary round, so that a punctuation of an idle partition stays short."""
_START = ""


class Sweep(Part):
    """Goes over one partition's live jobs."""

    keys: ClassVar = {_ROUTING: "the digest of the routing that every live job follows, or nothing"}
    awaits_logs = True

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._digest = digest(shared.topology)
        self._behind: str | None = _START  # the id behind which it goes on; None between rounds
        self._due = 0.0

    def restored(self, ctx: Context) -> None:
        self.shared.unrouted = ctx.store("parts").get(_ROUTING) != self._digest

    def tick(self, step: Step) -> None:
        """Look at the next part of the jobs."""
        self._forget_former(step)
        shared = self.shared
        before = (self._behind, self._due, shared.unrouted, shared.sweep_now, shared.sweep_anew)
        step.on_undo(self._return_to, *before)
        if shared.sweep_anew:
            shared.sweep_anew, self._behind = False, _START
        if shared.sweep_now:
            shared.sweep_now, self._due = False, 0.0
        if self._behind is None:
            if step.monotonic < self._due:
                return
            self._behind = _START
        if self._behind == _START:
            self._due = step.monotonic + _ROUND_SECONDS
        most = _LOOKED_AT if self.shared.unrouted else _GLANCED_AT
        part = list(islice(step.table.live(self._behind), most))
        changed = 0
        for job_id, live in part:
            self._behind = job_id
            changed += step.mended(job_id, live)
            if changed == AT_ONCE:
                return
        if len(part) < most:
            self._finish(step)

    def handled(self, step: Step) -> None:
        self._forget_former(step)

    def _forget_former(self, step: Step) -> None:
        """Forget the former routing with the first step under another: from then on jobs differ.

        If that routing returns before the round is over, it makes a round, too.
        """
        if self.shared.unrouted and step.store.get(_ROUTING):
            step.store.put(_ROUTING, b"")

    def rests(self) -> bool:
        """Whether it is between two rounds."""
        return self._behind is None and not self.shared.sweep_now and not self.shared.sweep_anew

    def _finish(self, step: Step) -> None:
        self._behind = None
        if self.shared.unrouted:
            step.store.put(_ROUTING, self._digest)
            self.shared.unrouted = False

    def _return_to(
        self, behind: str | None, due: float, unrouted: bool, asked: bool, anew: bool
    ) -> None:
        """Go over the last part again, because its changes were taken back."""
        self._behind, self._due = behind, due
        self.shared.unrouted, self.shared.sweep_now = unrouted, asked
        self.shared.sweep_anew = anew
