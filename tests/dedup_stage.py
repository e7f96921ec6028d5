"""The dedup stage as a process whose steps and disk a test may stop: `python dedup_stage.py`.

The real stage, topology and settings (TIDEGATE_*), as `tidegate dedup` runs them.
"""

from __future__ import annotations

import fault_points
import slow_disk

from streams.dedup import stage
from streams.runtime.runner import run_stage
from streams.settings import load_settings
from streams.telemetry import configure_logging
from streams.topology.load import load

if __name__ == "__main__":
    slow_disk.install()
    fault_points.install()
    settings = load_settings()
    configure_logging(settings, stage="dedup", instance=settings.instance)
    topology = load()
    run_stage(stage(topology), topology, settings)
