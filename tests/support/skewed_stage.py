"""A stage of the pipeline in a process whose wall clock is off: `python -m support.skewed_stage`.

`STAGE` names the stage, `WALL_CLOCK_OFF` says by how many seconds; TIDEGATE_* configures it.
"""

from __future__ import annotations

import os
import time

from streams import dispatcher, scheduler
from streams.link.running import run_owner
from streams.settings import load_settings
from streams.telemetry import configure_logging
from streams.topology.load import load


def set_wall_clock(seconds: float) -> None:
    """As if somebody had set this machine's clock by so much."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + round(seconds * 1e9)


if __name__ == "__main__":
    set_wall_clock(float(os.environ["WALL_CLOCK_OFF"]))
    settings = load_settings()
    name = os.environ["STAGE"]
    configure_logging(settings, stage=name, instance=settings.instance)
    topology = load(settings.topology)
    stages = {
        "scheduler": scheduler.stage(topology),
        "dispatcher": dispatcher.stage(topology),
    }
    run_owner(stages[name], topology, settings)
