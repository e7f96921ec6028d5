"""Every measured figure that sizes are computed from, with the run that measured it.

`docs/sizing.md` shows this table; the programs are beside this folder. Bytes depend on the machine
little. Processor times do: on processors twice as fast they are half as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

What = Literal[
    "processor time",
    "commits",
    "resident",
    "store memory",
    "logged",
    "kept",
    "store",
    "rows",
    "waiting",
    "seconds",
    "rate",
    "most",
]
WHAT: dict[What, str] = {
    "processor time": "us",
    "commits": "cores",
    "resident": "MiB",
    "store memory": "MiB",
    "logged": "bytes",
    "kept": "bytes",
    "store": "bytes",
    "rows": "bytes",
    "waiting": "bytes",
    "seconds": "s",
    "rate": "a second",
    "most": "",
}
"""Each kind of figure and its unit.

`processor time` is at full speed, of all threads. `commits` is what each process uses beyond it at
200 events a second, because small transactions cost as much as large ones. `logged` is what the
producers of a topic add to its segments. `kept` is what compaction leaves on it, `store` the same
in RocksDB and `rows` in the operator's file.
"""

_SHARED = "2 cores, shared with broker, load and all stages"
_QUIET = "2 quiet cores, shared with broker and load"
_ALONE = "2 cores"

RUNS = {
    "sizes": ("python benchmarks/bench_sizes.py", _SHARED),
    "dedup": ("python benchmarks/bench_dedup.py --events 1000000", _QUIET),
    "keys": ("python benchmarks/bench_dedup.py --events 600000 --keys 20000000", _QUIET),
    "scale": ("python benchmarks/bench_scale.py", _ALONE),
    "rows": ("python benchmarks/bench_event_rows.py", _ALONE),
    "fanout": ("python benchmarks/bench_fanout.py", _SHARED),
    "pending": ("python benchmarks/bench_delivery_rows.py --rows 1000000", _SHARED),
    "sweep": ("python benchmarks/bench_jobs.py --rounds 1 --jobs 6000 --sweep tidegate", _QUIET),
    "code": ("a limit of the code", "any"),
}
"""Each run by its name: the command, and the machine it ran on."""


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` of `about` (a stage, a topic, a store) for each `per`, in the unit of `what`."""

    what: What
    about: str
    per: str
    value: float
    run: str


_TIMES = (
    ("ingress", "delivery in", 355),
    ("pipeline", "event without a job", 131),
    ("pipeline", "redelivery", 211),
    ("pipeline", "job", 488),
    ("pipeline", "effect", 252),
    ("delivery", "event", 64),
    ("delivery", "job", 137),
    ("delivery", "delivery out", 532),
    ("worker", "job", 230),
    ("worker", "effect", 323),
    ("operator", "event without a job", 42),
    ("operator", "redelivery", 41),
    ("operator", "job", 201),
    ("operator", "effect", 123),
    ("operator", "delivery out", 111),
    ("broker", "event without a job", 428),
    ("broker", "redelivery", 631),
    ("broker", "job", 367),
    ("broker", "effect", 331),
    ("broker", "delivery out", 406),
)
"""A job's time has that of its event in it, as far as a stage or the broker handles both."""
_COMMITS = (
    ("ingress", 0.08),
    ("pipeline", 0.13),
    ("delivery", 0.08),
    ("worker", 0.02),
    ("operator", 0.03),
)
_LOGGED = (
    ("payloads", "delivery in", 94),
    ("events.received", "delivery in", 383),
    ("events", "event", 391),
    ("duplicates", "redelivery", 158),
    ("dedup.seen.changelog", "event", 112),
    ("dedup.seen.changelog", "redelivery", 102),
    ("dispatcher.parts.changelog", "event without a job", 360),
    ("dispatcher.parts.changelog", "redelivery", 90),
    ("jobs", "job", 608),
    ("ledger", "effect", 337),
    ("deliveries", "delivery out", 398),
    ("deliveries.attempts", "delivery out", 144),
    ("delivery.queue.changelog", "delivery out", 324),
)
_KEPT = (
    ("jobs", "job", 293),
    ("dispatcher.parts.changelog", "event without a job", 359),
    ("ledger", "effect", 194),
    ("deliveries", "delivery out", 234),
    ("delivery.queue.changelog", "delivery out", 302),
)
_STORES = (
    ("jobs", "job", 332, "sizes"),
    ("parts", "event without a job", 283, "sizes"),
    ("ledger", "effect", 180, "sizes"),
    ("deliveries", "delivery out", 159, "sizes"),
    ("queue", "delivery out", 131, "sizes"),
    ("seen", "event", 27.5, "sizes"),
    ("seen", "redelivery", 12, "code"),
)
_ROWS = (
    ("events", "event", 675, "rows"),
    ("jobs", "job", 1_230, "sizes"),
    ("effects", "effect", 530, "sizes"),
    ("duplicates", "redelivery", 312, "sizes"),
    ("deliveries", "delivery out", 774, "sizes"),
    ("attempts", "delivery out", 274, "sizes"),
)
_RESIDENT = (
    ("ingress", 94),
    ("pipeline", 170),
    ("delivery", 161),
    ("worker", 87),
    ("operator", 105),
)
FIGURES: tuple[Figure, ...] = (
    *(Figure("processor time", about, per, amount, "sizes") for about, per, amount in _TIMES),
    Figure("processor time", "dedup", "delivery in", 9.7, "dedup"),
    Figure("processor time", "analytics", "event", 177, "fanout"),
    *(Figure("commits", about, "process", amount, "sizes") for about, amount in _COMMITS),
    Figure("commits", "broker", "committing process", 0.56, "sizes"),
    *(Figure("logged", about, per, amount, "sizes") for about, per, amount in _LOGGED),
    *(Figure("kept", about, per, amount, "sizes") for about, per, amount in _KEPT),
    *(Figure("store", about, per, amount, run) for about, per, amount, run in _STORES),
    *(Figure("rows", about, per, amount, run) for about, per, amount, run in _ROWS),
    *(Figure("resident", about, "process", amount, "sizes") for about, amount in _RESIDENT),
    Figure("resident", "dedup", "process", 302, "dedup"),
    Figure("waiting", "jobs", "job", 338, "scale"),
    Figure("store memory", "RocksDB", "process", 256, "code"),
    Figure("seconds", "lease", "job", 0.07, "sweep"),
    Figure("rate", "restore", "seen", 602_000, "keys"),
    Figure("rate", "restore", "rows", 147_000, "pending"),
    Figure("rate", "operator", "event", 25_000, "fanout"),
    Figure("most", "dedup", "partitions", 80, "code"),
)


def figures(what: What, about: str) -> list[Figure]:
    """Every figure of a kind about a stage, a topic, or a store."""
    return [each for each in FIGURES if (each.what, each.about) == (what, about)]


def value(what: What, about: str, per: str) -> float:
    """The value of one figure; 0 if there is none."""
    return sum(each.value for each in figures(what, about) if each.per == per)
