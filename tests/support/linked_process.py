"""A small stage with a served link as a process: `python -m support.linked_process`.

Each command adds one to the count of its worker and writes it to `out`, and is answered by
`wanted`. A test may kill or freeze it at a step (`fault_points`).
"""

from __future__ import annotations

from dataclasses import replace

from streams.link.listening import Listening
from streams.link.owner import Owner
from streams.link.server import LinkServer
from streams.link.terms import Terms
from streams.process.boot_clock import boot_seconds
from streams.runtime.link import LINK
from streams.runtime.processor import Context, Processor, Record
from streams.runtime.runner import run_stage
from streams.serde.link.frames import encoded
from streams.serde.link.messages import Wanted
from streams.settings import load_settings
from streams.telemetry import configure_logging
from streams.topology.model import LeasePolicy
from support import fault_points
from support.counting import counting_stage, counting_topology
from support.link_services import InMemory
from support.linked_stage import Roster


class Committing(Processor):
    """Counts of workers in `counts`."""

    def __init__(self, partition: int) -> None:
        """It serves one partition."""

    def process(self, record: Record, ctx: Context) -> None:
        key, counts = record.key or b"", ctx.store("counts")
        count = b"%d" % (int(counts.get(key) or b"0") + 1)
        counts.put(key, count)
        ctx.forward("out", key, count)
        ctx.forward(LINK, key, encoded(Wanted()))


if __name__ == "__main__":
    fault_points.install()
    settings, roster, topology = load_settings(), Roster(), counting_topology()
    configure_logging(settings, stage="counting", instance=settings.instance)
    terms = Terms("counting", topology.partitions, frozenset({"default"}), LeasePolicy())
    owner = Owner(roster, terms, boot_seconds)
    server = LinkServer(owner, lambda _: InMemory(), Listening("127.0.0.1", 0))
    stage = replace(counting_stage(), processor=Committing, link=roster)
    run_stage(stage, topology, settings, link=server)
