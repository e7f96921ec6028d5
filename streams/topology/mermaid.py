"""The flow as a Mermaid graph: topics are cylinders, stages boxes, changelogs dashed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streams.topology.model import StageDeclaration, Topology


def mermaid(topology: Topology) -> str:
    """A `flowchart` from the declaration alone; topics that no stage uses are drawn unconnected."""
    changelogs = {s.changelog for stage in topology.stages.values() for s in stage.stores}
    lines = ["flowchart LR"]
    lines += [f'  {_id("topic", name)}[("{name}")]' for name in topology.topics]
    for stage in topology.stages.values():
        lines.append(f'  {_id("stage", stage.name)}["{stage.name}"]')
        lines += _edges(topology, stage)
    lines.append("  classDef changelog stroke-dasharray: 4 4")
    lines += [f"  class {_id('topic', name)} changelog" for name in sorted(changelogs)]
    return "\n".join(lines)


def _edges(topology: Topology, stage: StageDeclaration) -> Iterator[str]:
    box = _id("stage", stage.name)
    for name in stage.reads:
        yield f"  {_id('topic', name)} --> {box}"
    for name in topology.outputs(stage):
        yield f"  {box} --> {_id('topic', name)}"
    for store in stage.stores:
        yield f"  {box} -. {store.name} .-> {_id('topic', store.changelog)}"


def _id(kind: str, name: str) -> str:
    # `end` and dots have a special meaning in Mermaid; a prefix and underscores do not.
    return f"{kind}_{re.sub(r'[^A-Za-z0-9]', '_', name)}"
