"""What a pipeline has to carry, in a user's own numbers, and the rates that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from streams.errors import ConfigError

MOST_A_SECOND = 10_000_000.0
MOST_BODY_BYTES = 25 * 1024 * 1024
"""The largest `max_body_bytes` of a source."""
DEFAULT = "default"
_MOST_SECONDS = 86_400.0
_MOST_COUNT = 1_000.0


@dataclass(frozen=True, slots=True)
class Pool:
    """Jobs a second of one pool, how long a handler takes, and how many a worker runs at once."""

    name: str
    jobs: float
    handler_seconds: float
    slots: int


@dataclass(frozen=True, slots=True)
class Demand:
    """Rates are a second; `events` counts an event once, however often it is delivered.

    `largest_tenant` is the share of the one tenant that has most events and jobs, from 0 to 1.
    `value_bytes` is what a job carries and keeps: input, result, steps, results of effects.
    `listed_hours` is the setting `events_listed_hours` of the operator.
    `restore_minutes` is how long a process that lost its disk may take to come back.
    Jobs beyond `pools` run in the pool `default` with `handler_seconds` and `slots`.
    """

    events: float
    jobs: float
    effects: float = 1.0
    body_bytes: int = 1_024
    value_bytes: int = 0
    redeliveries: float = 0.1
    deliveries: float = 0.0
    largest_tenant: float = 0.1
    handler_seconds: float = 1.0
    slots: int = 20
    replication: int = 3
    restore_minutes: float = 60.0
    listed_hours: float = 24.0
    pools: tuple[Pool, ...] = ()


_BOUNDS = {
    "events": (0.0, MOST_A_SECOND, "a second"),
    "jobs": (0.0, MOST_A_SECOND, "a second"),
    "effects": (0.0, _MOST_COUNT, "a job"),
    "body_bytes": (1.0, float(MOST_BODY_BYTES), "bytes"),
    "value_bytes": (0.0, 1_048_576.0, "bytes a job"),
    "redeliveries": (0.0, _MOST_COUNT, "an event"),
    "deliveries": (0.0, _MOST_COUNT, "an event"),
    "largest_tenant": (0.0, 1.0, "the share of one tenant, such as 0.1"),
    "handler_seconds": (0.0, _MOST_SECONDS, "seconds"),
    "slots": (1.0, 10_000.0, "handlers"),
    "replication": (1.0, 9.0, "replicas"),
    "restore_minutes": (1.0, 10_080.0, "minutes"),
}


def check(demand: Demand) -> None:
    """Refuse numbers that no pipeline can have.

    Raises:
        ConfigError: the message has a line for each of them, with the option's name.
    """
    wrong = [
        problem
        for field in fields(demand)
        if field.name in _BOUNDS
        and (problem := _outside(_option(field.name), getattr(demand, field.name), field.name))
    ]
    if not wrong and not demand.events and not demand.jobs:
        wrong.append("--events and --jobs are both 0: give the rate of one at least")
    wrong += _pools(demand)
    if wrong:
        raise ConfigError("\n".join(wrong))


def _pools(demand: Demand) -> list[str]:
    wrong = []
    for pool in demand.pools:
        for name in ("jobs", "handler_seconds", "slots"):
            if problem := _outside(f"--pool {pool.name}: {name}", getattr(pool, name), name):
                wrong.append(problem)
    names = [pool.name for pool in demand.pools]
    if DEFAULT in names:
        wrong.append(
            "--pool default: it has the jobs that no other pool has; set --handler-seconds and "
            "--slots for it"
        )
    wrong += [f"--pool {name}: given twice" for name in sorted(set(names)) if names.count(name) > 1]
    if not wrong and sum(pool.jobs for pool in demand.pools) > demand.jobs * (1 + 1e-9):
        wrong.append(f"--pool: the pools have more jobs a second than --jobs {demand.jobs:g}")
    return wrong


def _outside(option: str, value: float, name: str) -> str | None:
    least, most, unit = _BOUNDS[name]
    if least <= value <= most:  # no NaN is
        return None
    return f"{option} {value:g}: give a number from {least:g} to {most:,.0f} ({unit})"


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def rates(demand: Demand) -> dict[str, float]:
    """How many of each thing that costs something there are in a second."""
    redelivered = demand.events * demand.redeliveries
    return {
        "delivery in": demand.events + redelivered,
        "redelivery": redelivered,
        "event": demand.events,
        "event without a job": max(0.0, demand.events - demand.jobs),
        "job": demand.jobs,
        "effect": demand.jobs * demand.effects,
        "delivery out": demand.events * demand.deliveries,
    }


def pools(demand: Demand) -> tuple[Pool, ...]:
    """Every pool with jobs: those given, and `default` with the rest."""
    rest = max(0.0, demand.jobs - sum(pool.jobs for pool in demand.pools))
    if demand.pools and rest <= demand.jobs * 1e-9:
        return demand.pools
    return (*demand.pools, Pool(DEFAULT, rest, demand.handler_seconds, demand.slots))
