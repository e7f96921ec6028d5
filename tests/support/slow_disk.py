"""A store's disk that does not answer while a file is there: `WRITE_GATE` names it.

A second file, `waits_at`, appears once a write waits.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from streams.state.store import Changes, Checkpoint
from streams.state.window import WindowBackend

WRITE_GATE = "WRITE_GATE"
_LOOK_SECONDS = 0.02


def waits_at(gate: Path) -> Path:
    return gate.with_suffix(".waits")


def install() -> None:
    """Have every write of a window store wait, if this process is told of a gate."""
    named = os.environ.get(WRITE_GATE)
    if not named:
        return
    gate, write = Path(named), WindowBackend.write

    def waiting(self: WindowBackend, changes: Changes, checkpoint: Checkpoint) -> None:
        while gate.exists():
            waits_at(gate).touch()
            threading.Event().wait(_LOOK_SECONDS)
        write(self, changes, checkpoint)

    WindowBackend.write = waiting  # type: ignore[method-assign]
