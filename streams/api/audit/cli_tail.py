"""`tidegate audit tail`: entries as they come, a line for each."""

from __future__ import annotations

import sys

import orjson
import typer

from streams.audit.entries import TOPIC
from streams.audit.shown import shown
from streams.audit_topic import followed
from streams.cli.cells import plain
from streams.cli.cluster import BROKER_SECONDS, ClusterOptions, addressed, require_width
from streams.cli.ends import errors_shown
from streams.cli.options import JsonLines, grouped
from streams.cli.terminal_text import harmless_json
from streams.http.moments import rfc3339
from streams.kafka.clients import wait_for_broker
from streams.serde.records import AuditEntry


@grouped
def tail(cluster: ClusterOptions, as_json: JsonLines = False) -> None:
    """Show entries of the audit as they come: time, who, what, about what, what was decided.

    It asks Kafka itself; `audit list` has those of before. Ctrl-C ends it. Exit codes: 1 Kafka does
    not answer; 2 a wrong option or setting.

    Example: tidegate audit tail --json | jq .verb
    """
    try:
        with errors_shown():
            settings, topology = cluster.read()
            with addressed(settings):
                wait_for_broker(settings, BROKER_SECONDS)
                require_width(settings, topology, TOPIC)
                for entry in followed(settings, topology.partitions):
                    sys.stdout.write(json_line(entry) if as_json else told(entry))
                    sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def told(entry: AuditEntry) -> str:
    """The line of an entry for people."""
    words = [entry.principal, entry.verb, entry.target, entry.reason or entry.outcome]
    return f"{rfc3339(entry.at)}  {'  '.join(plain(word) for word in words)}\n"


def json_line(entry: AuditEntry) -> str:
    """The line of an entry for programs."""
    return harmless_json(orjson.dumps(shown(entry), option=orjson.OPT_APPEND_NEWLINE))
