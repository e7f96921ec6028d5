"""What a stage is: a processor, what it reads and writes, and its stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from streams.runtime.link import Workers
from streams.runtime.processor import Processor
from streams.state.indexed import Index
from streams.topology.model import Topology


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store of a stage and the topic that is its changelog.

    `window_ms` makes it a window store: an entry expires once the stream time is that much later
    than the entry's own time. `index` gives it an index, which is on no changelog.
    """

    name: str
    changelog: str
    kind: Literal["key_value", "window"] = "key_value"
    window_ms: int = 0
    index: Index | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage as the runtime runs it: inputs are co-partitioned logical topics.

    `writes` are globs of the topics to which it forwards. `letters` is the input on which its dead
    letters come back, which no other stage reads; without one they cannot be replayed. `compacted`
    are the inputs of which only the newest record of a key counts. A stage with a `link` gets
    commands of workers over it, and tells this who is connected.
    """

    name: str
    inputs: tuple[str, ...]
    stores: tuple[StoreSpec, ...]
    processor: Callable[[int], Processor]
    punctuate_seconds: float = 0.1
    writes: tuple[str, ...] = ()
    letters: str | None = None
    compacted: frozenset[str] = frozenset()
    link: Workers | None = None

    @property
    def own_inputs(self) -> frozenset[str]:
        """Its inputs that it alone writes: none, since it would read them itself."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class FusedStage:
    """Stages of the same partitions that a process runs as one, in the order of the flow.

    They have one consumer group, one producer and one transaction. A record that one forwards to an
    input of another is handed over in memory (`runtime/fused_task.py`).
    """

    name: str
    parts: tuple[Stage, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(topic for part in self.parts for topic in part.inputs)

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        return tuple(spec for part in self.parts for spec in part.stores)

    @property
    def own_inputs(self) -> frozenset[str]:
        """The inputs of a part that other parts write, and nobody else but replays of letters.

        What a part writes for itself is none, since it writes that for its other partitions, too.
        """
        written = {topic for part in self.parts for topic in part.writes}
        read = {
            topic
            for part in self.parts
            for topic in part.inputs
            if topic != part.letters and topic not in part.writes
        }
        return frozenset(written & read)

    @property
    def link(self) -> Workers | None:
        """That of the part that has one."""
        return next((part.link for part in self.parts if part.link is not None), None)

    @property
    def punctuate_seconds(self) -> float:
        return min(part.punctuate_seconds for part in self.parts)

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(topic for part in self.parts for topic in part.writes)


AnyStage = Stage | FusedStage


def parts_of(stage: AnyStage) -> tuple[Stage, ...]:
    """The stages that a stage consists of: itself, unless it is fused."""
    return (stage,) if isinstance(stage, Stage) else stage.parts


def declared_stage(
    topology: Topology,
    name: str,
    processor: Callable[[int], Processor],
    punctuate_seconds: float = 0.1,
    indexes: Mapping[str, Index] = MappingProxyType({}),
    link: Workers | None = None,
) -> Stage:
    """The stage that the topology declares under this name, run by this processor.

    Window stores get the topology's window; `indexes` are those of its stores, by name.
    """
    declared = topology.stages[name]
    stores = tuple(
        StoreSpec(
            s.name,
            s.changelog,
            s.kind,
            topology.window_ms if s.kind == "window" else 0,
            indexes.get(s.name),
        )
        for s in declared.stores
    )
    compacted = {topic for topic in declared.reads if "compact" in topology.topics[topic].cleanup}
    return Stage(
        name,
        declared.reads,
        stores,
        processor,
        punctuate_seconds,
        declared.writes,
        topology.letter_input(name),
        frozenset(compacted),
        link,
    )
