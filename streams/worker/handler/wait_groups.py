"""Which waits of a run that parks end together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streams.serde.records import Wait


def grouped(awaited: Iterable[tuple[Wait, ...]]) -> tuple[Wait, ...]:
    """The waits with the numbers of their groups; groups that share a wait are one.

    Any end goes on with such a group: the next run parks for what is left.
    """
    groups: list[dict[str, Wait]] = []
    for waits in awaited:
        group = {wait.id: wait for wait in waits}
        for other in [each for each in groups if not group.keys().isdisjoint(each)]:
            groups.remove(other)
            group = {id_: replace(w, needs_all=False) for id_, w in (other | group).items()}
        groups.append(group)
    return tuple(
        replace(wait, group=number)
        for number, group in enumerate(groups)
        for wait in group.values()
    )
