"""`tidegate topology describe --acls`: each user's rights on Kafka, in the form asked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from streams.cli.operator_command import print_json
from streams.settings import Settings
from streams.topology.model import LayoutName, Topology
from streams.topology.rights import users
from streams.topology.rights_text import (
    as_commands,
    as_json,
    as_strimzi,
    default_user_prefix,
)


class AclFormat(StrEnum):
    """The tool or operator that the rights are printed for."""

    KAFKA_ACLS = "kafka-acls"
    STRIMZI = "strimzi"


AsAcls = Annotated[
    bool, typer.Option("--acls", help="Print the least rights on Kafka of each process's user.")
]


@dataclass(frozen=True)
class AclOptions:
    """The options that go with `--acls`."""

    format: Annotated[
        AclFormat,
        typer.Option(
            help="With --acls: kafka-acls, or strimzi for KafkaUser objects.", metavar="FORMAT"
        ),
    ] = AclFormat.KAFKA_ACLS
    user_prefix: Annotated[
        str | None,
        typer.Option(
            help="With --acls: what each user's name begins with; CN=... for client certificates.",
            metavar="PREFIX",
            show_default="tidegate-, then the topic prefix",
        ),
    ] = None
    layout: Annotated[
        LayoutName | None,
        typer.Option(
            help="With --acls: fused or apart, without the processes of the other.",
            metavar="LAYOUT",
        ),
    ] = None
    strimzi_cluster: Annotated[
        str, typer.Option(help="With --format strimzi: the Kafka object's name.", metavar="NAME")
    ] = "my-cluster"


def print_acls(topology: Topology, settings: Settings, options: AclOptions, *, json: bool) -> None:
    """Print the rights on standard output.

    Raises:
        ConfigError: a user cannot be named as the format wants it.
    """
    found = users(topology, settings.topic_prefix, options.layout)
    prefix = options.user_prefix
    if prefix is None:
        prefix = default_user_prefix(settings.topic_prefix)
    if json:
        print_json({"users": as_json(found, prefix)})
    elif options.format is AclFormat.STRIMZI:
        typer.echo(as_strimzi(found, prefix, options.strimzi_cluster))
    else:
        typer.echo(as_commands(found, prefix, settings.bootstrap))
