"""Whether the cluster's topics have the settings that a stage needs, whatever was declared."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from streams.dead_letter import TOPIC as DLQ
from streams.errors import ConfigError
from streams.runtime.stage import AnyStage
from streams.topology.model import Topology
from streams.topology.sizes import too_small

Settings = Mapping[str, Mapping[str, str]]
"""Each logical topic's settings on the cluster."""


def checked(stage: AnyStage, topology: Topology) -> set[str]:
    """The declared topics whose settings matter to a stage: its inputs and all that it writes."""
    return _written(stage, topology) | set(stage.inputs)


def refuse_unfit(stage: AnyStage, topology: Topology, found: Settings) -> None:
    """Check that no topic refuses what the stage sends, loses its state or tells another time.

    Raises:
        ConfigError: names each topic that must be changed.
    """
    written = _written(stage, topology)
    kept = {store.changelog for store in stage.stores}
    unfit = [
        f"stage {stage.name}: {topic} {why}. Run `tidegate topology apply`, then start it again"
        for topic, settings in sorted(found.items())
        for why in (
            _size_fault(topic, settings) if topic in written else None,
            _time_fault(settings) if _carries_time(topic, stage, topology) else None,
            _cleanup_fault(settings, topology.topics[topic].cleanup) if topic in kept else None,
        )
        if why is not None
    ]
    if unfit:
        raise ConfigError("\n".join(unfit))


def _written(stage: AnyStage, topology: Topology) -> set[str]:
    globs = (DLQ, *stage.writes, *(s.changelog for s in stage.stores))
    return {name for name in topology.topics for glob in globs if fnmatchcase(name, glob)}


def _carries_time(topic: str, stage: AnyStage, topology: Topology) -> bool:
    return topic in stage.inputs and topology.topics[topic].timestamp == "append"


def _size_fault(topic: str, settings: Mapping[str, str]) -> str | None:
    limit = settings.get("max.message.bytes")
    return None if limit is None else too_small(topic, int(limit))


def _cleanup_fault(settings: Mapping[str, str], declared: str) -> str | None:
    found = settings.get("cleanup.policy", declared)
    if "delete" in declared or "delete" not in found:
        return None
    return f"has cleanup.policy {found}, not {declared}: Kafka would delete the stage's state"


def _time_fault(settings: Mapping[str, str]) -> str | None:
    kind = settings.get("message.timestamp.type", "LogAppendTime")
    if kind == "LogAppendTime":
        return None
    return (
        f"has message.timestamp.type {kind}, not LogAppendTime: whoever writes it would decide "
        "what is old"
    )
