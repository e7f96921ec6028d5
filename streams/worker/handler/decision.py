"""What a run gets for an approval, and instead of an effect that needs one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streams.serde.records import PolicyObjection
from streams.worker.handler.run_result import RunStopped


@dataclass(frozen=True, slots=True)
class Decision:
    """What people decided; `by` is who decided last, None if nobody did in time.

    `edit` is what they put in place of arguments, None if nothing was changed.
    """

    approved: bool
    by: str | None
    note: str
    edit: Any = None


@dataclass(frozen=True, slots=True)
class Proposed:
    """An effect that may not begin before people have approved it, and its arguments.

    `objection` is that of the application's policy, if it has one.
    """

    why: str
    arguments: Mapping[str, Any]
    objection: PolicyObjection | None = None


class NeedsApproval(RunStopped):
    """Unwinds an effect that people have to approve first, up to where the handler asked for it."""

    def __init__(self, proposed: Proposed) -> None:
        super().__init__(proposed.why)
        self.proposed = proposed
