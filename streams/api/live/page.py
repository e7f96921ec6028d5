"""A page of a stream: what its reader gets next, and what is left for a later page.

However many jobs a stream has, and however much they said, a page is small: many readers have one
at the same time, and one thread reads them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from streams.api.live.frames import Frame

Change = tuple[str, str]
"""A job and the table in which something of it changed; for the workflow itself, "" and its."""

OF_JOB = ("jobs", "live", "progress", "effects", "steps")
"""The tables in which the changes of a job are."""
WORKFLOW: Change = ("", "workflows")

PAGE_BYTES = 64 * 1024
"""Of each kind of thing, a page ends behind the one with which it has so many bytes."""

Heard = Mapping[tuple[int, int], int]
"""By partition and topic, the offsets before which every change was told to its readers."""
Limit = Callable[[int, int], float]
"""Returns, of a partition and topic, the first offset of which a reader may not have heard."""
Unsettled = dict[tuple[int, int], int]
"""Offsets of records by partition and topic: ends whose last tokens may not be rows yet."""


@dataclass(slots=True)
class Page:
    """What a reader gets now.

    `again` are changes of which something is left for a later page. An end is told once everything
    that was on the topics when it was found is a row: until then it is `unsettled`. `oldest` is the
    time of the oldest thing said, and nothing that is left for a later page is older.
    """

    frames: list[Frame] = field(default_factory=list)
    again: set[Change] = field(default_factory=set)
    unsettled: Unsettled = field(default_factory=dict)
    oldest: float = inf
