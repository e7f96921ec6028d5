"""The counting stage as a process: `python -m support.counting_stage`, configured by TIDEGATE_*.

A test may kill or freeze it at a step (`fault_points`). `PARTITIONS` is its topics' width,
`INPUTS` names what it reads. With `STAGE=granting` it is that stage, and with `STAGE=fused` it is
fused with one that passes records on to it.
"""

from __future__ import annotations

import os

from streams.runtime.runner import run_stage
from streams.settings import load_settings
from streams.telemetry import configure_logging
from support import fault_points
from support.counting import counting_stage, counting_topology, fused_stage, fused_topology
from support.granting import granting_stage, granting_topology

if __name__ == "__main__":
    fault_points.install()
    settings = load_settings()
    configure_logging(settings, stage="counting", instance=settings.instance)
    width = int(os.environ.get("PARTITIONS", "2"))
    inputs = tuple(os.environ.get("INPUTS", "in").split())
    if os.environ.get("STAGE") == "granting":
        run_stage(granting_stage(), granting_topology(width), settings)
    elif os.environ.get("STAGE") == "fused":
        run_stage(fused_stage(), fused_topology(), settings)
    else:
        run_stage(counting_stage(inputs=inputs), counting_topology(width, inputs), settings)
