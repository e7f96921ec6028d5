"""Judges what the operator says of itself, and of what waits for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from streams.doctor.commands import Commands
from streams.doctor.finding import Check, Finding, counted, named
from streams.doctor.operator_view import OperatorSeen
from streams.serde import delivery_states, job_states

READY = Check("operator", "ready")
PROCESSES = Check("operator", "processes")
WAITING = Check("operator", "for people")

_PEOPLE: tuple[tuple[str, dict[str, str], str, str], ...] = (
    ("tidegate_dead_letters", {}, "dead letter", "dlq list --not-replayed"),
    ("tidegate_jobs", {"status": job_states.NEEDS_REVIEW}, "job in review", "jobs review"),
    ("tidegate_unknown_effects", {}, "effect of unknown outcome", "jobs review"),
    (
        "tidegate_quarantined_bodies",
        {},
        "body in the quarantine",
        "quarantine list --status waiting",
    ),
    (
        "tidegate_deliveries",
        {"status": delivery_states.PARKED},
        "parked delivery",
        f"deliveries list --status {delivery_states.PARKED}",
    ),
    ("tidegate_full_backlogs", {}, "full backlog", "jobs backlog"),
    ("tidegate_operator_replays_stuck", {}, "stuck replay", "replays list"),
    ("tidegate_operator_bulk_acts_stuck", {}, "stuck bulk act", "bulk list"),
)
"""Metrics with the list that shows what each counts."""
_NAME_IT = "name the operator with --url"
_SEVERAL = {
    "job in review": "jobs in review",
    "effect of unknown outcome": "effects of unknown outcome",
    "body in the quarantine": "bodies in the quarantine",
    "parked delivery": "parked deliveries",
}

Samples = dict[str, list[tuple[dict[str, str], float]]]


def operator(commands: Commands, seen: OperatorSeen) -> Iterator[Finding]:
    """Whether it is ready, and what its metrics tell that people have to decide."""
    told = _samples_of(seen.metrics)
    if told and _is_another(told):
        yield READY.skipped("another process than the operator answers there", _NAME_IT)
        return
    if seen.status != 200:
        said = " ".join(seen.ready.split())[:200]
        yield READY.warn(
            f"the operator's address is not ready: it answers {seen.status}, {said!r}",
            "wait while a read model catches up; otherwise look at the log of what it names",
        )
    else:
        yield READY.ok("the operator is ready")
    yield from _metrics(told, commands)


def _is_another(samples: Samples) -> bool:
    """Whether a stage or a worker says these; `dev` says those of all its processes."""
    stages = {of.get("stage") for of, _ in samples["tidegate_process_info"]}
    return bool(stages) and "operator" not in stages and not samples["tidegate_up"]


def _metrics(samples: Samples, commands: Commands) -> Iterator[Finding]:
    if not samples:
        yield WAITING.skipped("what answers there has no metrics of Tidegate", _NAME_IT)
        return
    if down := [of["stage"] for of, up in samples["tidegate_up"] if up == 0 and "stage" in of]:
        yield PROCESSES.warn(
            f"{counted(len(down), 'process', 'processes')} of `dev` did not answer: {named(down)}",
            f"look at its log in {commands.settings.data_dir / 'logs'}",
        )
    told = 0
    for name, labels, one, listed in _PEOPLE:
        count = sum(v for of, v in samples[name] if labels.items() <= of.items())
        if count > 0:
            told += 1
            yield WAITING.warn(
                counted(int(count), one, _SEVERAL.get(one)), commands.on_operator(*listed.split())
            )
    if not told:
        yield WAITING.ok("nothing waits for a person")


def _samples_of(text: str) -> Samples:
    """Those of Tidegate's metrics; none if the text is something else."""
    found: Samples = defaultdict(list)
    try:
        for family in text_string_to_metric_families(text):
            if family.name.startswith("tidegate_"):
                for sample in family.samples:
                    found[sample.name].append((sample.labels, sample.value))
    except ValueError:
        return defaultdict(list)
    return found
