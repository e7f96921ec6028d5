"""The first event to send to an application: a sample that one of its routes makes into a job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from ingress.samples import names, sample
from ingress.schemes import SCHEMES
from ingress.schemes.normalize import Normalizer
from streams.topology.model import Topology

TENANT, SOURCE = "demo", "zendesk"
"""What `dev` creates beside its own broker."""


@dataclass(frozen=True, slots=True)
class SampleEvent:
    """A sample's name, and the source for it, which is named as its scheme."""

    source: str
    sample: str

    @property
    def commands(self) -> list[str]:
        """What follows `tidegate` to deliver it; sources that `dev` did not create come first."""
        make = f"sources set {self.source} --tenant {TENANT} --scheme {self.source} --generate"
        send = f"send --tenant {TENANT} --source {self.source} --sample {self.sample} --times 3"
        return [*([make] if self.source != SOURCE else []), send]


def sample_event(topology: Topology) -> SampleEvent | None:
    """The first sample that gets a job; those of the source that `dev` creates come first."""
    return next((e for e in _samples() if _is_routed(e, topology)), None)


def advice(topology: Topology, data_dir: str = "") -> list[str]:
    """What to do if no sample gets a job, for its first route; `data_dir` ends the commands."""
    route = next((route for route in topology.routes if route.job is not None), None)
    if route is None:
        return []
    name = "SOURCE" if set("*?[") & set(route.source) else route.source
    commands = (
        f"sources set {name} --tenant {TENANT} --scheme SCHEME --generate",
        f"send FILE --tenant {TENANT} --source {name} --times 3",
    )
    return [
        f"No sample has a route. The first route takes {route.event_type!r} of source "
        f"{route.source!r}: create such a source, and deliver a body of your own:",
        *(f"  tidegate {command}{data_dir}" for command in commands),
    ]


def _samples() -> Iterator[SampleEvent]:
    schemes = [s for s in SCHEMES if s != SOURCE and not SCHEMES[s].public_key]
    for scheme in (SOURCE, *schemes):
        for name in names(scheme):
            yield SampleEvent(scheme, name)


def _is_routed(event: SampleEvent, topology: Topology) -> bool:
    made = sample(event.source, event.sample, time.time())
    fields = Normalizer(event.source, {}).normalize(dict(made.headers), made.body)
    route = topology.route(event.source, fields.event_type)
    return route is not None and route.job is not None
