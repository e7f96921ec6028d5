"""`tidegate`: the root of the command line; `streams.stages` lists the stages that it runs.

Nothing heavy is imported before it is needed: a stage's process loads that stage alone. Exit codes:
0 done, 1 an error of the tree in `streams.errors`, 2 a wrong flag, setting or file, 130
interrupted, 141 the reader of standard output is gone.
"""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import version
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.api.resources import command_groups
from streams.cli import standard_output
from streams.cli.ends import interrupts_raised, tell
from streams.cli.options import of_stage, with_options
from streams.errors import TidegateError, exit_code
from streams.process.forked_children import let_forked_children_end
from streams.stages import STAGES, StageProcess, load

if TYPE_CHECKING:
    from streams.settings import Settings
    from streams.topology.model import Topology

_GROUPS = {
    "broker": "streams.cli.broker:app",
    "topology": "streams.cli.topology:app",
    **command_groups(),
    "schemas": "streams.cli.schemas:schemas",
}
_COMMANDS = {
    "dev": "streams.dev.command:dev",
    "demo": "streams.demo.command:demo",
    "console": "streams.cli.console:console",
    "send": "streams.cli.send:send",
    "listen": "streams.cli.listen:listen",
    "new": "streams.new.project:new",
    "doctor": "streams.cli.doctor:doctor",
    "top": "streams.api.overview.cli:command",
}


_COMMANDS_OF_STAGES = {"analytics": "streams.cli.analytics:analytics"}
"""Stages whose command has others below it; without one of these, it runs the stage."""


def main() -> None:
    """Run one command; print errors of our own tree in one line, without a traceback.

    Should a library end the process by SIGSEGV or SIGABRT, the stacks of all threads are printed.
    """
    with suppress(ValueError, OSError, RuntimeError):  # a standard error that is no file, or closed
        faulthandler.enable()
    let_forked_children_end()
    try:
        with standard_output.taken_over(), interrupts_raised():
            application(sys.argv[1:])()
    except KeyboardInterrupt:
        sys.exit(130)
    except TidegateError as error:
        tell(error)
        sys.exit(exit_code(error))


def application(arguments: Sequence[str]) -> typer.Typer:
    """The command line; only the command that `arguments` name is imported."""
    app = typer.Typer(
        name="tidegate",
        help="Turns floods of webhooks into jobs whose effects happen once, on Kafka.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    asked = next((word for word in arguments if not word.startswith("-")), None)
    for name, target in _COMMANDS.items():
        if _wanted(name, asked):
            app.command(name)(load(target))
    for name, target in _GROUPS.items():
        if _wanted(name, asked):
            app.add_typer(load(target), name=name)
    for stage in STAGES.values():
        if stage.name not in _COMMANDS_OF_STAGES:
            app.command(stage.name, help=stage.help)(_stage_command(stage))
        elif _wanted(stage.name, asked):
            group = _stage_group(stage, load(_COMMANDS_OF_STAGES[stage.name]))
            app.add_typer(group, name=stage.name, help=stage.help)
    return app


def _wanted(name: str, asked: str | None) -> bool:
    """Whether `name` must be loaded; all must be, to list them or to suggest a similar one."""
    known = asked in {*_COMMANDS, *_GROUPS, *STAGES}
    return name == asked or not known


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(version("tidegate"))
        raise typer.Exit


def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Do nothing: each command does its own work."""


def _prepare(stage: str, **flags: Any) -> tuple[Settings, Topology]:
    """The first steps of every stage: end with its parent, settings, logging, topology."""
    from streams.dev.parent_death import end_with_parent

    end_with_parent()
    from streams.certificates import note_certificates
    from streams.settings import load_settings
    from streams.telemetry import PROCESS, configure_logging
    from streams.topology.load import checked

    settings = load_settings(**flags)
    configure_logging(settings, stage=stage, instance=settings.instance)
    PROCESS.labels(stage, version("tidegate")).set(1)
    note_certificates(settings)
    found = checked(settings.topology)
    if stage in _WARN:
        _log_warnings(found.warnings)
    return settings, found.topology


_WARN = ("dispatcher", "pipeline")
"""Stages that log the topology's warnings. They apply limits and routes; if all stages logged them,
`tidegate dev` would show each several times."""


def _log_warnings(warnings: Sequence[str]) -> None:
    import structlog

    for warning in warnings:
        structlog.get_logger(__name__).warning("the topology has a doubtful part", detail=warning)


def _stage_command(stage: StageProcess) -> Callable[..., None]:
    def command(**flags: Any) -> None:
        application = {name: flags.pop(name) for name in ("app", "pool") if name in flags}
        settings, topology = _prepare(stage.name, **flags)
        pools = _pools(application.pop("pool")) if application else {}
        from streams.process.shutdown import end_at_once
        from streams.topology.rights_watch import rights_watched
        from streams.tracing.process import recorded

        at_once = stage.kind != "worker"  # an application may have registered something `atexit`
        try:
            with recorded(stage.name, settings), ExitStack() as watched:
                if at_once:  # a worker has no user on Kafka
                    watched.enter_context(rights_watched(stage.name, settings, topology))
                _run(stage, settings, topology, pools, **application)
        except TidegateError as error:
            if at_once:
                tell(error)
                end_at_once(exit_code(error))
            raise
        if at_once:
            end_at_once()

    return with_options(command, of_stage(stage.name, stage.kind))


def _pools(given: list[str] | None) -> dict[str, int | None]:
    from streams.worker.pools import asked

    return asked(given or ())


def _run(
    stage: StageProcess,
    settings: Settings,
    topology: Topology,
    pools: Mapping[str, int | None],
    app: str = "",
) -> None:
    if stage.kind != "worker":
        stage.run(settings, topology)
        return
    from streams.worker.app_loader import load_app

    load(stage.target)(load_app(app), settings, topology, pools=pools)


def _stage_group(stage: StageProcess, group: typer.Typer) -> typer.Typer:
    run = _stage_command(stage)

    def unless_asked_for_another(ctx: typer.Context, **flags: Any) -> None:
        if ctx.invoked_subcommand is None:
            run(**flags)

    context = Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    options = (context, *of_stage(stage.name, stage.kind))
    group.callback(invoke_without_command=True)(with_options(unless_asked_for_another, options))
    return group


if __name__ == "__main__":
    main()
