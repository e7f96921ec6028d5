"""The command `tidegate dev`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from streams.dev.layout import DEFAULT_POOL, Pool
from streams.settings import load_settings

_POOL = re.compile(r"(?P<name>[^=]+)=(?P<processes>\d{1,4})(?:/(?P<slots>[1-9]\d{0,5}))?", re.ASCII)


def dev(
    port: Annotated[
        int | None,
        typer.Option(
            help="Port of everything; 0 picks a free one. (8080 by default)", metavar="PORT"
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Kafka's data, keys, logs. (.tidegate by default)", metavar="DIR"),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option(help="Use this Kafka instead of an embedded one.", metavar="HOSTS")
    ] = None,
    app: Annotated[
        str | None,
        typer.Option(help="Your application instead of a sample.", metavar="MODULE:ATTR"),
    ] = None,
    topology: Annotated[
        Path | None, typer.Option(help="File that overlays the built-in topology.", metavar="FILE")
    ] = None,
    allow_unsafe: Annotated[
        bool, typer.Option(help="Take a --bootstrap of fewer than three brokers.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.", metavar="N")] = 1,
    slots: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Handlers that each worker of the default pool runs at once. (20 by default)",
            metavar="N",
        ),
    ] = None,
    apart: Annotated[
        bool,
        typer.Option("--apart", help="Run dedup, scheduler, dispatcher as processes apart."),
    ] = False,
    analytics: Annotated[
        bool, typer.Option("--analytics", help="Count, too; needs the extra `analytics`.")
    ] = False,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            help="N worker processes of another pool, SLOTS handlers each: slow=1/2. Repeatable.",
            metavar="NAME=N[/SLOTS]",
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart the workers when the code changes.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show warnings and errors alone.")
    ] = False,
) -> None:
    """Run the whole pipeline here: a real Kafka, every stage, your --app or a sample.

    It shows a line for each event, job and effect. The full logs are in DATA_DIR/logs.

    Example: tidegate dev --app app:app --topology topology.yaml --reload --pool slow=1
    """
    from streams.dev.layout import Layout
    from streams.dev.run import Wanted, run
    from streams.stages import require_analytics
    from streams.tracing.wanted import wanted

    wanted(os.environ)  # an error here comes once, not from every process
    if analytics:
        require_analytics()
    settings = load_settings(port=port, data_dir=data_dir, bootstrap=bootstrap, topology=topology)
    make = Layout.apart if apart else Layout
    pools = _pools(pool or [])
    layout = make(worker=workers, slots=slots, analytics=int(analytics), pools=pools)
    run(settings, layout, Wanted(app, allow_unsafe=allow_unsafe, reload=reload, quiet=quiet))


def _pools(given: list[str]) -> tuple[Pool, ...]:
    found: dict[str, Pool] = {}
    for text in given:
        matched = _POOL.fullmatch(text)
        if matched is None or matched["name"] in found:
            raise typer.BadParameter(
                f"{text!r}: write NAME=N or NAME=N/SLOTS, each pool once, as in slow=1/2",
                param_hint="--pool",
            )
        name, slots = matched["name"], matched["slots"]
        if name == DEFAULT_POOL:
            raise typer.BadParameter(
                "give the default pool's processes with --workers, and their slots with --slots",
                param_hint="--pool",
            )
        found[name] = Pool(name, int(matched["processes"]), int(slots) if slots else None)
    return tuple(found.values())
