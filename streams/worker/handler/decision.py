"""What a handler gets for an approval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Decision:
    """What people decided; `by` is who decided last, None if nobody did in time.

    `edit` is what they put in place of arguments, None if nothing was changed.
    """

    approved: bool
    by: str | None
    note: str
    edit: Any = None
