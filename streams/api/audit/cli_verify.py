"""`tidegate audit verify`: whether an entry is missing, moved or altered."""

from __future__ import annotations

from typing import Any

import typer

from streams.audit.entries import TOPIC
from streams.audit_topic import checked
from streams.cli.cells import plain
from streams.cli.cluster import BROKER_SECONDS, ClusterOptions, addressed, require_width
from streams.cli.ends import errors_shown
from streams.cli.operator_command import print_json
from streams.cli.options import AsJson, grouped
from streams.kafka.clients import wait_for_broker

_SHOWN = 20


@grouped
def verify(cluster: ClusterOptions, as_json: AsJson = False) -> None:
    """Check that no entry of the topic `audit` is missing, moved or altered.

    It asks Kafka itself. The oldest entries of a chain may be gone by the topic's retention, and
    that its newest ones are gone does not show. Exit codes: 1 a chain is broken, or Kafka does not
    answer; 2 a wrong option or setting.

    Example: tidegate audit verify
    """
    with errors_shown():
        settings, topology = cluster.read()
        with addressed(settings):
            wait_for_broker(settings, BROKER_SECONDS)
            require_width(settings, topology, TOPIC)
            found = checked(settings, topology.partitions).json()
    print_json(found) if as_json else _show(found)
    if found["broken"]:
        raise typer.Exit(1)


def _show(found: dict[str, Any]) -> None:
    for each in found["broken"][:_SHOWN]:
        where = f"partition {each['partition']}, offset {each['offset']}"
        typer.echo(f"broken at {plain(each['id'] or 'no entry')} ({where}): {plain(each['why'])}")
    more = len(found["broken"]) - _SHOWN
    if more > 0:
        typer.echo(f"and at {more:,} more places")
    state = "are broken" if found["broken"] else "are whole"
    typer.echo(f"{len(found['chains']):,} chains of {found['entries']:,} entries {state}")
