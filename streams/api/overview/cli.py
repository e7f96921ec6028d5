"""`tidegate top`: the overview in a terminal, which looks again each second."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from streams.api.overview.cli_view import view
from streams.cli.api_client import NoAnswer
from streams.cli.cells import console_of_any_width, plain
from streams.cli.keys import pressed_keys
from streams.cli.operator_command import Answer, Api, print_json, program
from streams.cli.options import AsJson

_BETWEEN_LOOKS = 1.0
_END = ("q", "Q")


def top(
    api: Api,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and end.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show where the flow stands, what waits for a person, and the last hour; each second anew.

    It takes the whole terminal until q or Ctrl-C. Into a pipe, it is printed once.

    Example: tidegate top

    Example: tidegate top --once --url https://tidegate.example.com
    """
    console = console_of_any_width()
    if as_json:
        print_json(_look(api))
    elif once or not console.is_terminal:
        console.print(view(_look(api), api))
    else:
        _watch(api, console)
    return 0


command = program(top)


def _look(api: Api) -> Answer:
    return {**api.get("/v1/overview"), **api.get("/v1/overview/minutes")}


def _watch(api: Api, console: Console) -> None:
    """Look again and again; the last numbers stay while the API does not answer."""
    found, trouble = _look(api), ""
    with pressed_keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(view(found, api, trouble), refresh=True)
            if any(key in _END for key in pressed(_BETWEEN_LOOKS)):
                return
            try:
                found, trouble = _look(api), ""
            except NoAnswer as error:
                trouble = plain(str(error))
