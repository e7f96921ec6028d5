"""What was seen from the outside: answers, calls, committed records, kills, stores on disk.

These are plain values. None of them comes from the pipeline's own counters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from streams.demo.run.kill import Kill
from streams.demo.run.operator_api import Listed
from streams.demo.verdict.fold import StoreFinding
from streams.demo.verdict.topic_recorder import Records
from streams.demo.world.delivery import Answer
from streams.demo.world.receiver import Hook
from streams.demo.world.recorder import Call, Start
from streams.demo.world.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Submitted:
    """One answer to the delayed submission; `not_before` in seconds since the epoch."""

    tenant_id: str
    job_id: str
    not_before: float


@dataclass(frozen=True)
class Evidence:
    """Everything on which the judge decides.

    `texts` are (tenant, text) that handlers showed to the outside; `high_water` is the most calls
    that a tenant had in progress at once; `hooks` are the requests that the receivers got.
    """

    scenario: Scenario
    answers: tuple[Answer, ...] = ()
    refused: tuple[str, ...] = ()
    submitted: tuple[Submitted, ...] = ()
    starts: tuple[Start, ...] = ()
    calls: tuple[Call, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()
    high_water: Counter[str] = field(default_factory=Counter)
    hooks: tuple[Hook, ...] = ()
    records: Records = field(default_factory=Records)
    kills: tuple[Kill, ...] = ()
    kill_wanted: bool = False
    listed: tuple[Listed, ...] = ()
    stores: tuple[StoreFinding, ...] = ()
    unfinished: tuple[str, ...] = ()
    undecodable: tuple[str, ...] = ()
