"""The command `tidegate dev`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.settings import load_settings


def dev(
    port: Annotated[
        int | None, typer.Option(help="Port of everything; 0 picks a free one. (8080 by default)")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Kafka's data, keys, logs. (.tidegate by default)")
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option(help="Use this Kafka instead of an embedded one.")
    ] = None,
    app: Annotated[
        str | None, typer.Option(help="Your application, module:attribute, instead of a sample.")
    ] = None,
    topology: Annotated[
        Path | None, typer.Option(help="File that overlays the built-in topology.")
    ] = None,
    allow_unsafe: Annotated[
        bool, typer.Option(help="Take a --bootstrap of fewer than three brokers.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
    slots: Annotated[
        int | None, typer.Option(min=1, help="Handlers that each runs at once. (20 by default)")
    ] = None,
    apart: Annotated[
        bool,
        typer.Option("--apart", help="Run dedup, scheduler, dispatcher as processes apart."),
    ] = False,
) -> None:
    """Run the whole pipeline here: a real Kafka, every stage, your --app or a sample.

    Example: tidegate dev --app examples.support.app:app --topology examples/support/topology.yaml
    """
    from streams.dev.layout import Layout
    from streams.dev.run import run

    settings = load_settings(
        port=port, data_dir=data_dir, bootstrap=bootstrap, topology=topology, slots=slots
    )
    layout = Layout.apart(worker=workers) if apart else Layout(worker=workers)
    run(settings, layout, app=app, allow_unsafe=allow_unsafe)
