"""The topology of a bench: the product's, made small, with routes of the test's own."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path

from streams.topology.load import load
from streams.topology.model import Events, Route, Topology


@dataclass(frozen=True, slots=True)
class NamedByCaller(Topology):
    """A topology without routes, where each event's job type is named with the event.

    `named` maps source and event type to a job type. All events are kept for waits.
    """

    named: dict[tuple[str, str], str] = field(default_factory=dict)

    def route(self, source: str, event_type: str) -> Route | None:
        """The route that was named for an event; see `Topology.route`."""
        job = self.named.get((source, event_type))
        return None if job is None else Route(source, event_type, job, self.default_priority)

    @property
    def waited_for(self) -> tuple[Events, ...]:
        return (Events(),)


def routed_by_file(path: Path) -> Topology:
    """The topology of an application's file.

    Raises:
        ConfigError: as `tidegate topology validate` reports it.
    """
    return _loaded(path, path.stat().st_mtime_ns if path.exists() else 0)


def routed_by_caller() -> NamedByCaller:
    """The built-in topology, without a route of its own."""
    built_in = _loaded(None, 0)
    return NamedByCaller(**{each.name: getattr(built_in, each.name) for each in fields(Topology)})


@lru_cache(maxsize=16)
def _loaded(path: Path | None, _changed_at: int) -> Topology:
    return _in_one_partition(load(path))


def _in_one_partition(topology: Topology) -> Topology:
    """Every topic gets one partition: a bench has one worker of each pool, and nothing to share."""
    topics = {name: replace(topic, partitions=1) for name, topic in topology.topics.items()}
    return replace(topology, partitions=1, topics=topics)
