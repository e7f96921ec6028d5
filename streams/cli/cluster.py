"""Which cluster a command means that asks Kafka itself, and how an error names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import KafkaError, KafkaException

from streams.cli.api_client import no_dev
from streams.cli.operator_command import print_json
from streams.cli.options import DevDir
from streams.dev_state import read_state
from streams.errors import ConfigError, KafkaUnavailable, TidegateError, exit_code
from streams.kafka.admin import admin_client
from streams.runtime.topics import Topics
from streams.settings import Settings, load_settings
from streams.topology.load import load
from streams.topology.model import Topology

BROKER_SECONDS = 5.0
"""How long a broker may take to answer at all."""

_SOON_OVER = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    }
)
"""Codes of a cluster in which a leader or a coordinator is about to move."""

_SILENT = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    }
)

_OF_DEV: dict[str, Callable[[str], object]] = {
    "bootstrap": str,
    "topology": Path,
    "topic_prefix": str,
}
"""What a command takes from the state of a running `tidegate dev`."""

FileOption = Annotated[
    Path | None,
    typer.Option("--topology", help="Your own file, laid over the built-in one.", metavar="FILE"),
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        help="Kafka brokers, host:port, separated by commas.  "
        "[default: TIDEGATE_BOOTSTRAP, else that of a running `tidegate dev`]",
        metavar="HOSTS",
    ),
]


@dataclass(frozen=True)
class ClusterOptions:
    """The options that name a cluster and its topology."""

    topology: FileOption = None
    bootstrap: BootstrapOption = None
    data_dir: DevDir = None

    def read(self) -> tuple[Settings, Topology]:
        """The settings and the topology; raises what `read_settings` raises."""
        return read_settings(self.topology, self.bootstrap, self.data_dir)


def found_settings(
    file: Path | None, bootstrap: str | None = None, data_dir: Path | None = None
) -> Settings:
    """The settings; those that are not set are as the `tidegate dev` on the directory runs.

    These are the address of its Kafka, its topology and its topic prefix. A command that names
    another Kafka takes none of them.

    Raises:
        ConfigError: a setting is not valid.
    """
    settings = load_settings(topology=file, bootstrap=bootstrap, data_dir=data_dir)
    running, given = read_state(settings.data_dir), settings.model_fields_set
    if "bootstrap" in given and settings.bootstrap != running.get("bootstrap"):
        return settings
    return settings.model_copy(
        update={
            name: kind(running[name])
            for name, kind in _OF_DEV.items()
            if name not in given and isinstance(running.get(name), str)
        }
    )


def read_settings(
    file: Path | None, bootstrap: str | None = None, data_dir: Path | None = None
) -> tuple[Settings, Topology]:
    """The settings as `found_settings` has them, and the topology.

    Raises:
        ConfigError: a setting or the file is not valid, or a directory is given and no `dev` runs
            in it. Another one may run at the default address.
    """
    settings = found_settings(file, bootstrap, data_dir)
    if data_dir is not None and "bootstrap" not in settings.model_fields_set:
        raise ConfigError(f"{no_dev(data_dir)}, or name brokers with --bootstrap")
    return settings, load(settings.topology)


def require_width(settings: Settings, topology: Topology, topic: str) -> None:
    """Check that the cluster's topic, if there is one, has the partitions of the topology.

    Otherwise a command would leave out partitions, and look for a tenant in another one than its
    own.

    Raises:
        ConfigError: it has another number.
        KafkaUnavailable: no broker answers.
    """
    topics, declared = Topics(admin_client(settings), settings.topic_prefix), topology.topics[topic]
    try:
        topics.refresh()
    except KafkaException as error:
        raise KafkaUnavailable(f"{topic}: {error.args[0].str()}") from error
    if topics.width(topic) not in (0, declared.partitions):
        raise ConfigError(
            f"{settings.topic_prefix}{topic} has {topics.width(topic)} partitions, the topology "
            f"declares {declared.partitions}: name the file that it was made from with --topology"
        )


@contextmanager
def addressed(settings: Settings) -> Iterator[None]:
    """Add to an error of Kafka's the address at which it was tried, and how to name another.

    Raises:
        KafkaUnavailable: as before, or in place of an exception of the client.
    """
    remedy = ""
    if "bootstrap" not in settings.model_fields_set:
        remedy = (
            f". No `tidegate dev` runs on {settings.data_dir}: name its directory with "
            "--data-dir, or brokers with --bootstrap"
        )
    try:
        yield
    except KafkaException as error:
        told = error.args[0]
        if told.code() in _SILENT:
            no_answer = f"{settings.bootstrap}: no broker answers ({told.str()}){remedy}"
            raise KafkaUnavailable(no_answer) from error
        again = ": run the command again" if told.code() in _SOON_OVER else ""
        raise KafkaUnavailable(f"{settings.bootstrap}: {told.str()}{again}") from error
    except KafkaUnavailable as error:
        raise KafkaUnavailable(f"{settings.bootstrap}: {error}{remedy}") from error


@contextmanager
def errors_told(as_json: bool) -> Iterator[None]:
    """Print what a command raises, as text and as JSON if that is wanted; exit code 2 if it is the
    configuration, else 1."""
    try:
        yield
    except TidegateError as error:
        if as_json:
            verdict = {"valid": False} if isinstance(error, ConfigError) else {}
            print_json({**verdict, "errors": str(error).splitlines()})
        typer.echo(str(error), err=True)
        raise typer.Exit(exit_code(error)) from None
