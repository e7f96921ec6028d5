"""The delivery stage as a process whose steps a test may end: `python -m support.delivery_stage`.

`WALL_CLOCK_OFF` says by how many seconds its wall clock is off; TIDEGATE_* configures it.
"""

from __future__ import annotations

import os

from streams.delivery.run import run
from streams.settings import load_settings
from streams.telemetry import configure_logging
from streams.topology.load import load
from support import fault_points
from support.skewed_stage import set_wall_clock

if __name__ == "__main__":
    set_wall_clock(float(os.environ.get("WALL_CLOCK_OFF", "0")))
    fault_points.install()
    settings = load_settings()
    configure_logging(settings, stage="delivery", instance=settings.instance)
    run(settings, load(settings.topology))
