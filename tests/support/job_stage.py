"""A stage of the job path as a process whose steps a test may end: `python -m support.job_stage`.

STAGE names it; the real stage, topology and settings (TIDEGATE_*), as `tidegate dispatcher` has.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from streams import dedup, dispatcher, pipeline, scheduler
from streams.link.running import run_owner
from streams.runtime.stage import AnyStage
from streams.settings import load_settings
from streams.telemetry import configure_logging
from streams.topology.load import load
from support import fault_points

if __name__ == "__main__":
    fault_points.install()
    settings = load_settings()
    name = os.environ["STAGE"]
    configure_logging(settings, stage=name, instance=settings.instance)
    topology = load(settings.topology)
    made: dict[str, Callable[[], AnyStage]] = {
        "dedup": lambda: dedup.stage(topology),
        "scheduler": lambda: scheduler.stage(topology),
        "dispatcher": lambda: dispatcher.stage(topology),
        "pipeline": lambda: pipeline.stage(topology),
    }
    run_owner(made[name](), topology, settings)
