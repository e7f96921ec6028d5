"""The pools whose jobs one worker process runs, and how many slots it has for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from streams.errors import ConfigError
from streams.settings import Settings
from streams.topology.model import Topology
from streams.worker.app import App
from streams.worker.worker import WorkerSpec

DEFAULT = "default"

_ASKED = re.compile(r"(?P<pool>[^=]+)(=(?P<slots>[1-9][0-9]*))?")


def asked(texts: Iterable[str]) -> dict[str, int | None]:
    """The pools of `--pool NAME` and `--pool NAME=SLOTS`, in their order; the default one if none.

    Raises:
        ConfigError: one is written otherwise, or is there twice.
    """
    found: dict[str, int | None] = {}
    for text in texts:
        match = _ASKED.fullmatch(text)
        if match is None or match["pool"] in found:
            raise ConfigError(
                f"--pool {text!r}: write NAME or NAME=SLOTS, each pool once, as in slow=2"
            )
        found[match["pool"]] = int(match["slots"]) if match["slots"] else None
    return found or {DEFAULT: None}


def places(
    app: App, settings: Settings, topology: Topology, pools: Mapping[str, int | None]
) -> list[WorkerSpec]:
    """The place of each pool's worker. A pool without a number of slots has those of the settings.

    Raises:
        ConfigError: a pool is not declared, or a job of it takes more slots than its worker has.
    """
    for pool in pools:
        if pool not in topology.pools:
            known = ", ".join(topology.pools)
            raise ConfigError(f"--pool {pool!r} is not in the topology; its pools are: {known}")
    found = [
        WorkerSpec(settings.instance, pool, slots or settings.slots)
        for pool, slots in pools.items()
    ]
    for place in found:
        _check_weights(app, topology, place)
    return found


def _check_weights(app: App, topology: Topology, place: WorkerSpec) -> None:
    for name, job in app.jobs.items():
        if topology.job_type(name).pool == place.pool and job.weight > place.slots:
            raise ConfigError(
                f"job type {name!r} has weight={job.weight}, and a worker of pool {place.pool!r} "
                f"has {place.slots} slots: give it more slots, or the job type a smaller weight"
            )
