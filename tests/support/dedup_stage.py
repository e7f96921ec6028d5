"""The dedup stage as a process whose steps and disk a test may stop.

The real stage, topology and settings (TIDEGATE_*), as `tidegate dedup` runs them. As long as the
file that HOLD_RESTORE names is there, a restore stops in its middle: a part of each store folded
in, the process alive.
"""

from __future__ import annotations

import os
from pathlib import Path

from streams.dedup.processor import stage
from streams.runtime import restore
from streams.runtime.runner import run_stage
from streams.settings import load_settings
from streams.telemetry import configure_logging
from streams.topology.load import load
from support import fault_points, slow_disk


def hold_restore(while_there: Path) -> None:
    advance = restore.Restore.advance

    def advancing(self: restore.Restore, now_ms: int, timeout: float = 0.05) -> bool:
        begun = self.left < self.at_start
        return False if begun and while_there.exists() else advance(self, now_ms, timeout)

    restore._READ = restore._MOST = 1
    restore.Restore.advance = advancing  # type: ignore[method-assign]


if __name__ == "__main__":
    slow_disk.install()
    fault_points.install()
    if held := os.environ.get("HOLD_RESTORE"):
        hold_restore(Path(held))
    settings = load_settings()
    configure_logging(settings, stage="dedup", instance=settings.instance)
    topology = load()
    run_stage(stage(topology), topology, settings)
