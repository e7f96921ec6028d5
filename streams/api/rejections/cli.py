"""`tidegate rejections ...`: counts of refused deliveries, from a terminal."""

from __future__ import annotations

import typer

from streams.cli.lists import page
from streams.cli.operator_command import Answer, Api, command
from streams.cli.options import Page

rejections = typer.Typer(no_args_is_help=True, help="List how often deliveries were refused.")

LIST = page(
    "rejections", ("count", "reason", "cause", "source", "tenant_id", "last_at", "first_at")
)


@rejections.callback()
def _group() -> None:
    """List how often deliveries were refused, and why."""


@command(rejections, "list", LIST)
def list_rejections(api: Api, page: Page) -> Answer:
    """List counts of refused deliveries by source and reason, newest first.

    Every ingress writes its counts each 10 seconds. Those without a tenant named no known tenant,
    or were too many to be kept apart.

    Example: tidegate rejections list --tenant acme
    """
    return api.get("/v1/rejections", **page.query)
