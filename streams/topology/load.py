"""Reads `topology.yaml`, lays an application's file over it, and checks the result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from streams.errors import ConfigError
from streams.shipped_files import resource
from streams.topology.doubts import doubts
from streams.topology.file_format import TopologyShape, build
from streams.topology.merge import merge
from streams.topology.model import Topology
from streams.topology.problems import Problem
from streams.topology.type_errors import doubtful, offending, told
from streams.topology.validate import validate
from streams.topology.yaml_tree import KeyPath, Node, read

_WHOLE_FILE: KeyPath = ()
_SHAPE = TypeAdapter(TopologyShape)


def load(overlay: Path | None = None) -> Topology:
    """The shipped topology, under the overlay if one is given.

    Raises:
        ConfigError: one line for every problem, `file:line: key.path: what is wrong; remedy`.
    """
    return checked(overlay).topology


@dataclass(frozen=True, slots=True)
class Checked:
    """A sound topology, and one line for every doubt about it, in the form of the problems."""

    topology: Topology
    warnings: tuple[str, ...]


def checked(overlay: Path | None = None) -> Checked:
    """What `load` returns, with the doubts about it; raises what `load` raises."""
    merged, problems = _read_files(overlay)
    shaped = _shaped(merged)
    problems += shaped.problems
    if shaped.topology is not None:
        broken = [found for found in validate(shaped.topology) if not shaped.doubts(found)]
        problems += [_placed(found, shaped.tree, overlay) for found in broken]
    if shaped.topology is None or problems:
        raise ConfigError("\n".join(problems))
    found = doubts(shaped.topology)
    return Checked(shaped.topology, tuple(_placed(doubt, shaped.tree, overlay) for doubt in found))


def _read_files(overlay: Path | None) -> tuple[Node, list[str]]:
    base, problems = _shipped(resource("topology.yaml"))
    if overlay is None:
        return base, list(problems)
    over, more = read(overlay)
    return merge(base, over), [*problems, *more]


@cache
def _shipped(path: Path) -> tuple[Node, tuple[str, ...]]:
    """The shipped file's tree: no process outlives a change of it."""
    tree, problems = read(path)
    return tree, tuple(problems)


@dataclass(frozen=True, slots=True)
class _Shaped:
    """The rest of a tree without its mismatches, so that one run also reports broken rules.

    `topology` is None if the rest is not a topology at all; `doubtful` are the places at which a
    broken rule may only follow from an omission.
    """

    topology: Topology | None
    tree: Node
    problems: list[str]
    doubtful: frozenset[KeyPath]

    def doubts(self, found: Problem) -> bool:
        places = [self.tree.nearest(path).place.path for path in found.paths]
        return any(
            place[: len(doubt)] == doubt[: len(place)]
            for place in places
            for doubt in self.doubtful
        )


def _shaped(merged: Node) -> _Shaped:
    tree, problems, doubts = merged, list[str](), set[KeyPath]()
    while True:
        try:
            topology = build(_SHAPE.validate_python(tree.plain()))
            return _Shaped(topology, tree, problems, frozenset(doubts))
        except ValidationError as error:
            # Later passes find only mismatches that an earlier one left: they are reported already.
            problems = problems or told(error, tree)
            doubts |= {tree.nearest(path).place.path for path in doubtful(error)} - {_WHOLE_FILE}
            # Remove from the back, so that indexes into lists stay valid.
            for path in sorted(set(offending(error)), reverse=True):
                if path == _WHOLE_FILE:
                    return _Shaped(None, tree, problems, frozenset(doubts))
                tree = tree.without(path)


def _placed(found: Problem, merged: Node, overlay: Path | None) -> str:
    places = [merged.nearest(path).place for path in found.paths]
    shown = next((place for place in places if place.file == overlay), places[0])
    return shown.problem(found.what)
