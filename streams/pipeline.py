"""`tidegate pipeline`: the stages that the topology fuses, as one process.

An event that dedup lets pass becomes a job, and its lease is sent, in the transaction that wrote
the event. A due timer reaches the dispatcher without a topic's round trip. Large installations run
the stages apart instead and scale each.
"""

from __future__ import annotations

from typing import cast

from streams.errors import ConfigError
from streams.runtime.stage import FusedStage, Stage
from streams.stages import STAGES
from streams.topology.model import FUSED, Topology


def stage(topology: Topology) -> FusedStage:
    """The fused stage.

    Raises:
        ConfigError: the topology fuses nothing, or a stage that this module cannot make.
    """
    if not topology.fused:
        raise ConfigError(
            "the topology fuses no stages: name them under `fused`, as the built-in one does, or "
            "run `tidegate dedup`, `scheduler` and `dispatcher`"
        )
    fusable = [
        each.name for each in STAGES.values() if each.kind == "stream" and each.name != FUSED
    ]
    for name in topology.fused:
        if name not in fusable:
            raise ConfigError(f"stage {name} cannot be fused: name only {', '.join(fusable)}")
    made = (STAGES[name].make(topology) for name in topology.fused)
    return FusedStage(FUSED, tuple(cast("Stage", stage) for stage in made))
