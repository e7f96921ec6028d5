"""`tidegate broker start | stop | status`: the embedded Kafka alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from streams.broker.embedded import EmbeddedKafka
from streams.broker.jars import kafka_version, missing_jars
from streams.broker.status import BrokerStatus, read_status, stop_broker
from streams.errors import BrokerError, ConfigError, TidegateError
from streams.settings import load_settings

app = typer.Typer(
    name="broker",
    no_args_is_help=True,
    help="Run the embedded Kafka alone: one node on 127.0.0.1, its data under --data-dir.",
)

# The exit code of a JVM that was asked to end, for example by `broker stop`.
_TERMINATED = 128 + signal.SIGTERM

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
            min=0, max=65535, help="Port on 127.0.0.1; 0 picks a free one.", metavar="PORT"
        ),
    ] = 9092,
    detach: Annotated[
        bool, typer.Option("--detach", help="Leave it running in the background.")
    ] = False,
) -> None:
    """Start the broker; Ctrl-C stops it, unless --detach.

    Example: tidegate broker start --detach --port 9092
    """
    with _errors_told():
        where = load_settings(data_dir=data_dir).data_dir
        _tell_of_download()
        kafka = EmbeddedKafka(where, port, detached=detach)
        if detach:
            kafka.start()
            typer.echo(f"broker ready {kafka.bootstrap} (pid {kafka.pid}); stop it with: "
                       f"tidegate broker stop --data-dir {where}")  # fmt: skip
            kafka.release()
        else:
            _run_in_foreground(kafka)


@app.command()
def stop(data_dir: DataDirOption = None) -> None:
    """Stop the broker of a data directory, whoever started it.

    Example: tidegate broker stop --data-dir .tidegate
    """
    with _errors_told():
        where = load_settings(data_dir=data_dir).data_dir
        was = stop_broker(where)
        typer.echo(f"broker stopped (pid {was.pid})" if was.pid else f"no broker runs on {where}")


@app.command()
def status(
    data_dir: DataDirOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show whether a broker runs on a data directory; exit code 0 when it does, else 1.

    Example: tidegate broker status --json
    """
    with _errors_told():
        found = read_status(load_settings(data_dir=data_dir).data_dir)
    if as_json:
        typer.echo(found.as_json())
    else:
        Console().print(_table(found))
    if not found.running:
        raise typer.Exit(1)


def _run_in_foreground(kafka: EmbeddedKafka) -> None:
    # A terminated command stops the broker in an orderly way, just as an interrupted one.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with kafka:
            typer.echo(f"broker ready {kafka.bootstrap} (pid {kafka.pid}); Ctrl-C stops it")
            code = kafka.wait()
    except KeyboardInterrupt:
        typer.echo("broker stopped")
        return
    if code not in (0, _TERMINATED):
        raise BrokerError(
            f"Kafka ended with exit code {code}; see server.log in the data directory's kafka/"
        )


def _tell_of_download() -> None:
    missing = missing_jars()
    if missing:
        typer.echo(
            f"fetching Kafka {kafka_version()} ({len(missing)} files, up to 45 MB), once ...",
            err=True,
        )


def _table(found: BrokerStatus) -> Table:
    table = Table("broker", "bootstrap", "pid", "Kafka")
    state = "running" if found.running else "silent" if found.pid else "stopped"
    table.add_row(state, found.bootstrap or "-", str(found.pid or "-"), found.version or "-")
    return table


@contextmanager
def _errors_told() -> Iterator[None]:
    try:
        yield
    except TidegateError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None
