"""What every benchmark shares: a broker of its own, the machine's name, the report.

A report is `{"benchmark", "machine", "results": [{"contender", "metric", "value", "unit"}]}`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from streams.broker.embedded import EmbeddedKafka
from streams.topology.model import Topology


@dataclass(frozen=True)
class Result:
    contender: str
    metric: str
    value: float
    unit: str


def variants(
    settings: Mapping[str, str], swept: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, Mapping[str, str]]]:
    """What a sweep runs: the settings as they are, first and last, and each one changed."""
    changed = [
        (f"{name}={value}", {**settings, name: value})
        for name, values in swept.items()
        for value in values
        if value != settings.get(name)
    ]
    return [("as committed", settings), *changed, ("as committed again", settings)]


@contextmanager
def broker_and_folder() -> Iterator[tuple[str, Path]]:
    """Bootstrap servers of a fresh embedded broker, and an empty folder; both go at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder,
        EmbeddedKafka(Path(folder) / "kafka") as broker,
    ):
        yield broker.bootstrap, Path(folder)


def create_topics(bootstrap: str, topology: Topology, names: Sequence[str]) -> None:
    """Topics as the topology declares them, on one replica."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [
        NewTopic(
            name,
            topology.topics[name].partitions,
            1,
            config={
                "cleanup.policy": topology.topics[name].cleanup,
                "message.timestamp.type": "LogAppendTime"
                if topology.topics[name].timestamp == "append"
                else "CreateTime",
            },
        )
        for name in names
    ]
    for created in admin.create_topics(wanted).values():
        created.result(30)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the option that all benchmarks have; SIGTERM now ends their processes too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="one JSON object, no table")
    return parser


def report(benchmark: str, results: Sequence[Result], *, as_json: bool) -> None:
    """Print the results to standard output."""
    if as_json:
        rows = [asdict(result) for result in results]
        print(json.dumps({"benchmark": benchmark, "machine": machine(), "results": rows}))
        return
    table = Table(title=f"{benchmark} ({machine()})")
    for column in ("contender", "metric", "value", "unit"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for result in results:
        table.add_row(result.contender, result.metric, f"{result.value:,.1f}", result.unit)
    Console().print(table)


def machine() -> str:
    """The machine a figure was measured on, and how much of it others had meanwhile."""
    name = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    busy, stolen = (now - then for now, then in zip(_processor_ticks(), _AT_START, strict=True))
    return f"{name}, {stolen / busy:.0%} of its work stolen by the host" if busy else name


def worked_seconds() -> float:
    """What all cores have worked so far, or were kept from working; 0 where Linux does not tell."""
    return _processor_ticks()[0] / os.sysconf("SC_CLK_TCK")


def _processor_ticks() -> tuple[int, int]:
    """Ticks that all cores worked or were kept from working, and the latter alone (proc(5))."""
    try:
        user, nice, system, _, _, irq, softirq, steal = map(
            int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        )
    except OSError:
        return 0, 0
    return user + nice + system + irq + softirq + steal, steal


_AT_START = _processor_ticks()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
