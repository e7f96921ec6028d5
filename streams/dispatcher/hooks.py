"""The parts of one partition, and which of their methods handle commands and hear of jobs.

The methods are looked up once, in the order of the list of parts, so that a step only calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streams.dispatcher.part import Part
from streams.dispatcher.shared import Shared
from streams.runtime.part import readers, routes, with_hook

Hook = Sequence[Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Hooks:
    """The methods of a partition's parts; `Part` says when each hook is called.

    `handles` has the method for each body of a command and each end of a run, and `reads` those for
    each input. `ticking` and `sweeping` are the parts that have such a hook.
    """

    parts: Mapping[type[Part], Part]
    handles: Mapping[Any, Callable[..., None]]
    reads: Mapping[str, Hook]
    ticking: Sequence[Part]
    sweeping: Sequence[Part]
    changed: Hook
    routed: Hook
    admitted: Hook
    may_go_on: Hook
    begins: Hook
    starts: Hook
    unbegun: Hook
    ended: Hook
    revived: Hook
    replaced: Hook
    forgotten: Hook
    written: Hook
    handled: Hook
    rests: Hook
    initiate: Hook
    initiate_early: Hook


def hooks(kinds: Sequence[type[Part]], shared: Shared) -> Hooks:
    """Make the parts of a partition, and look their methods up."""
    parts = {kind: kind(shared) for kind in kinds}

    def with_(hook: str) -> list[Part]:
        return with_hook(parts.values(), Part, hook)

    def bound(hook: str) -> Hook:
        return [getattr(part, hook) for part in with_(hook)]

    return Hooks(
        parts=parts,
        handles={key: getattr(parts[kind], name) for key, (kind, name) in routes(kinds).items()},
        reads={
            topic: [getattr(parts[kind], name) for kind, name in found]
            for topic, found in readers(kinds).items()
        },
        ticking=with_("tick"),
        sweeping=with_("is_due"),
        changed=bound("changed"),
        routed=bound("routed"),
        admitted=bound("admitted"),
        may_go_on=bound("may_go_on"),
        begins=bound("begins"),
        starts=bound("starts"),
        unbegun=bound("unbegun"),
        ended=bound("ended"),
        revived=bound("revived"),
        replaced=bound("replaced"),
        forgotten=bound("forgotten"),
        written=bound("written"),
        handled=bound("handled"),
        rests=bound("rests"),
        initiate=bound("initiate"),
        initiate_early=[part.initiate for part in with_("initiate") if part.initiates_early],
    )
