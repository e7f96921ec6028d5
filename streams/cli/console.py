"""`tidegate console`: the operator's console in a browser, with the rights of the token."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from streams.cli.operator_command import Api, program


@program
def console(
    api: Api,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the link, and open no browser.")
    ] = False,
) -> int:
    """Open the operator's console in a browser.

    The link is good once, for two minutes. The browser's session then has the rights of the token
    that this command has; it ends after 30 minutes without use, or when the token is revoked.
    People with an account of your company open /console and sign in there.

    Example: tidegate console --no-open
    """
    link = api.url + api.post("/v1/session/links", {})["path"]
    typer.echo(link)
    if not no_open:
        webbrowser.open(link)
    return 0
