"""`tidegate schemas`: those of topics in a registry of yours, and those of the link of workers."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.cli.cluster import FileOption, read_settings
from streams.cli.ends import errors_shown
from streams.cli.operator_command import print_json
from streams.cli.options import AsJson
from streams.cli.schema_registry import Missing, Registry

schemas = typer.Typer(no_args_is_help=True, help="Schemas of topics and of the link.")


@schemas.command("publish")
def publish(
    registry: Annotated[
        str,
        typer.Option(
            help="The registry's URL.",
            metavar="URL",
            envvar="SCHEMA_REGISTRY_URL",
            show_envvar=True,
        ),
    ],
    apply: Annotated[bool, typer.Option("--apply", help="Do it; else it is only shown.")] = False,
    topology: FileOption = None,
    as_json: AsJson = False,
) -> None:
    """Register the schemas of every topic with a registry, under the ids in the records.

    Without --apply it only shows what is missing there. It is safe to repeat. Without a registry of
    your own, readers may ask the operator, which answers a registry's calls. Exit codes: 0 shown or
    done; 1 the registry refuses or holds other schemas under these ids; 2 a wrong option.

    Example: tidegate schemas publish --registry http://registry:8081 --apply
    """
    with errors_shown():
        settings, loaded = read_settings(topology)
        to = Registry(registry)
        prefix, topics = settings.topic_prefix, tuple(loaded.topics)
        missing = list(to.missing(prefix, topics))
        if apply:
            to.publish(prefix, topics, missing)
    _show(to, missing, apply, as_json)


@schemas.command("link")
def link(
    host: Annotated[
        str, typer.Option(help="Where an owner listens, as it is to be named.", metavar="HOST:PORT")
    ] = "localhost:8460",
    tls: Annotated[bool, typer.Option("--tls", help="The owner has a certificate.")] = False,
) -> None:
    """Print the messages between workers and owners of partitions as an AsyncAPI 3 document.

    It is for those who write a worker in another language: docs/link.md explains the protocol.

    Example: tidegate schemas link > link.json
    """
    from streams.serde.link.asyncapi import asyncapi

    print_json(asyncapi(host, tls=tls))


def _show(to: Registry, missing: list[Missing], applied: bool, as_json: bool) -> None:
    rows = [{"subject": m.subject, "version": m.schema.version, "id": m.schema.id} for m in missing]
    if as_json:
        print_json({"registry": to.url, "applied": applied, "missing": rows})
        return
    for each in rows:
        typer.echo(f"{each['subject']}, version {each['version']}: id {each['id']}")
    if not rows:
        typer.echo(f"{to.url} has every schema")
    else:
        done = "registered" if applied else "missing: add --apply to register them"
        typer.echo(f"{len(rows)} {done}")
