"""`tidegate broker start | stop | status`: the embedded Kafka alone."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from streams.broker.cluster import EmbeddedCluster
from streams.broker.cluster_file import size_of_cluster
from streams.broker.cluster_status import ClusterStatus, read_cluster_status, stop_cluster
from streams.broker.embedded import EmbeddedKafka
from streams.broker.jars import kafka_version, missing_jars
from streams.cli.cells import columns, console_of_any_width
from streams.cli.ends import errors_shown
from streams.cli.options import AsJson
from streams.errors import BrokerError
from streams.process.shutdown import end_on_sigterm
from streams.settings import load_settings

app = typer.Typer(
    name="broker",
    no_args_is_help=True,
    help="Run the embedded Kafka alone: a node or three on 127.0.0.1, its data under --data-dir.",
)

# The exit code of a JVM that was asked to end, for example by `broker stop`.
_TERMINATED = 128 + signal.SIGTERM
_LOOK_SECONDS = 0.3

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Directory of its data (.tidegate unless configured).", metavar="DIR"
    ),
]


@app.command()
def start(
    data_dir: DataDirOption = None,
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            help="Port on 127.0.0.1, the first of three nodes; 0 picks free ones.",
            metavar="PORT",
        ),
    ] = 9092,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes",
            help="1, or 3 for three copies of each record; unless given, what the directory has, "
            "or 1.",
            metavar="N",
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Leave it running in the background.")
    ] = False,
) -> None:
    """Start the broker; Ctrl-C stops it, unless --detach.

    Of three nodes, it starts those that do not run: so a killed one comes back.

    Example: tidegate broker start --detach --port 9092

    Example: tidegate broker start --nodes 3
    """
    with errors_shown():
        where = load_settings(data_dir=data_dir).data_dir
        several = size_of_cluster(where, nodes) > 1
        _tell_of_download()
        made = EmbeddedCluster if several else EmbeddedKafka
        kafka = made(where, port)
        if detach:
            _start_detached(kafka, where)
        else:
            _run_in_foreground(kafka, where)


@app.command()
def stop(data_dir: DataDirOption = None) -> None:
    """Stop the broker of a data directory, all its nodes, whoever started it.

    Example: tidegate broker stop --data-dir .tidegate
    """
    with errors_shown():
        where = load_settings(data_dir=data_dir).data_dir
        was = stop_cluster(where)
        typer.echo(f"broker stopped ({_pids(was)})" if was.pids else f"no broker runs on {where}")


@app.command()
def status(
    data_dir: DataDirOption = None,
    as_json: AsJson = False,
) -> None:
    """Show whether a broker runs on a data directory; exit code 0 if all its nodes do, else 1.

    Example: tidegate broker status --json
    """
    with errors_shown():
        found = read_cluster_status(load_settings(data_dir=data_dir).data_dir)
    if as_json:
        typer.echo(found.as_json())
    else:
        console_of_any_width().print(_table(found))
    if not found.running:
        raise typer.Exit(1)


def _start_detached(kafka: EmbeddedKafka | EmbeddedCluster, where: Path) -> None:
    # A terminated start ends what it has started, just as an interrupted one.
    end_on_sigterm()
    kafka.start()
    kafka.release()
    typer.echo(f"{_ready(kafka, where)}; stop with: tidegate broker stop --data-dir {where}")


def _run_in_foreground(kafka: EmbeddedKafka | EmbeddedCluster, where: Path) -> None:
    # A terminated command stops the broker in an orderly way, just as an interrupted one.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with kafka:
            typer.echo(f"{_ready(kafka, where)}; Ctrl-C stops it")
            codes = _await_end(kafka, where)
    except KeyboardInterrupt:
        typer.echo("broker stopped")
        return
    bad = [code for code in codes if code not in (0, _TERMINATED)]
    if bad:
        raise BrokerError(
            f"Kafka ended with exit code {bad[0]}; see server.log in the data directory's "
            f"{'node-N/kafka/' if len(codes) > 1 else 'kafka/'}"
        )


def _await_end(kafka: EmbeddedKafka | EmbeddedCluster, where: Path) -> list[int | None]:
    """Wait until no node runs; tell of each of several that ends. The exit codes."""
    if isinstance(kafka, EmbeddedKafka):
        return [kafka.wait()]
    codes: dict[int, int] = {}
    while read_cluster_status(where).pids:
        # Nodes that others have started, or brought back, are not waited for.
        time.sleep(_LOOK_SECONDS)
        _note_ends(kafka, codes, where, 0)
    _note_ends(kafka, codes, where, _LOOK_SECONDS)
    return list(codes.values())


def _note_ends(kafka: EmbeddedCluster, codes: dict[int, int], where: Path, patience: float) -> None:
    for id_, node in kafka.nodes.items():
        if id_ not in codes and (code := node.wait(patience)) is not None:
            codes[id_] = code
            typer.echo(
                f"node {id_} ended with exit code {code}; bring it back with: "
                f"tidegate broker start --detach --data-dir {where}"
            )


def _ready(kafka: EmbeddedKafka | EmbeddedCluster, where: Path) -> str:
    return f"broker ready {kafka.bootstrap} ({_pids(read_cluster_status(where))})"


def _pids(found: ClusterStatus) -> str:
    return f"pid{'s' if found.several else ''} {', '.join(map(str, found.pids))}"


def _tell_of_download() -> None:
    missing = missing_jars()
    if missing:
        typer.echo(
            f"fetching Kafka {kafka_version()} ({len(missing)} files, up to 45 MB), once ...",
            err=True,
        )


def _table(found: ClusterStatus) -> Table:
    table = columns("broker", "bootstrap", "pid", "Kafka")
    for id_, node in found.nodes.items():
        state = "running" if node.running else "silent" if node.pid else "stopped"
        told = f"node {id_} {state}" if found.several else state
        table.add_row(told, node.bootstrap or "-", str(node.pid or "-"), node.version or "-")
    return table
