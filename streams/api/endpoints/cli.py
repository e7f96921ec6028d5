"""`tidegate endpoints ...`: where a tenant's outgoing webhooks go, from a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from streams.api.endpoints import cli_tables as tables
from streams.api.endpoints.cli_options import (
    AskSecret,
    Enabled,
    Events,
    Format,
    Header,
    Mapped,
    NoRate,
    Ordering,
    PerSecond,
    Retry,
    SecretRef,
    Sources,
    Text,
    Timeout,
    Where,
    merged_headers,
    retry_seconds,
    secret_body,
)
from streams.cli.changes import tell_changes
from streams.cli.operator_command import (
    Answer,
    Api,
    command,
    part,
    program,
    require_tenant,
    seen,
    show,
)
from streams.cli.options import AsJson, OfTenant, Page
from streams.cli.quantities import duration, rate
from streams.cli.signing_secret import SecretFile
from streams.tenants.endpoints import LONGEST_TIMEOUT_SECONDS

endpoints = typer.Typer(
    no_args_is_help=True, help="List, show, set, rotate, remove and test outgoing webhooks."
)

EndpointId = Annotated[str, typer.Argument(metavar="ENDPOINT")]
_TESTED_WITHIN_SECONDS = 3 * LONGEST_TIMEOUT_SECONDS + 30
"""A test has at most three attempts, each of which may take the endpoint's whole timeout."""
NOT_DELIVERED = 3
"""The exit code of a test that no attempt delivered."""
_SETTINGS = (
    "url",
    "events",
    "sources",
    "enabled",
    "rate",
    "ordering",
    "timeout_seconds",
    "retry",
    "format",
    "mapping",
    "description",
)


@command(endpoints, "list", tables.endpoints)
def list_endpoints(
    api: Api,
    page: Page,
    state: Annotated[
        str | None,
        typer.Option(help="Only these: cut_off (circuit open) or failing.", metavar="STATE"),
    ] = None,
) -> Answer:
    """List the endpoints of all tenants, or of one, by id, and which of them fail.

    With a state, endpoints that somebody has disabled are left out.

    Example: tidegate endpoints list --tenant acme
    """
    of = "" if page.tenant is None else f"/tenants/{part(page.tenant)}"
    return api.get(f"/v1{of}/endpoints", limit=page.limit, cursor=page.cursor, state=state)


@command(endpoints, "show", tables.endpoint)
def show_endpoint(api: Api, endpoint: EndpointId, tenant: OfTenant) -> Answer:
    """Show an endpoint, its keys without their secrets, and whether deliveries succeed.

    Example: tidegate endpoints show crm --tenant acme
    """
    return api.get(_path(tenant, endpoint))


@command(endpoints, "set", tables.endpoint)
def set_endpoint(
    api: Api,
    endpoint: EndpointId,
    tenant: OfTenant,
    to: Where = None,
    events: Events = None,
    sources: Sources = None,
    header: Header = None,
    secret_file: SecretFile = None,
    secret_ref: SecretRef = None,
    ask_secret: AskSecret = False,
    format: Format = None,
    mapping: Mapped = None,
    timeout: Timeout = None,
    retry: Retry = None,
    rate: PerSecond = None,
    no_rate: NoRate = False,
    ordering: Ordering = None,
    enabled: Enabled = None,
    description: Text = None,
) -> Answer:
    """Create an endpoint, or change the settings that are given; the others stay as they are.

    A new endpoint without a secret gets one that is made here and shown this once. A new secret
    for an endpoint ends the old ones at once; `rotate` lets them overlap.

    Example: tidegate endpoints set crm --tenant acme --to https://crm.example/hooks --events job.*
    """
    given = {
        "url": to,
        "events": events or None,
        "sources": sources or None,
        "format": format,
        "timeout_seconds": _read(timeout, lambda text: duration(text, "--timeout")),
        "retry": _read(retry, retry_seconds),
        "rate": _rate(rate, no_rate=no_rate),
        "ordering": ordering,
        "enabled": enabled,
        "description": description,
        "mapping": mapping,
    }
    secret = secret_body(secret_file, secret_ref, ask=ask_secret)
    require_tenant(api, tenant)
    path = _path(tenant, endpoint)
    known = seen(api, path)
    before = known.found
    wanted = _wanted(before, given, no_rate=no_rate)
    if header:
        names = (before or {}).get("headers") or ()
        wanted["headers"] = merged_headers(names, header)
    after = api.put(path, wanted | secret, known)
    shown = (*_SETTINGS, "headers")
    tell_changes(f"endpoint {endpoint} of tenant {tenant}", before, after, shown)
    if before is not None and secret:
        typer.echo("the new secret alone signs from now on", err=True)
    return after


@command(endpoints, "rotate", tables.endpoint)
def rotate(
    api: Api,
    endpoint: EndpointId,
    tenant: OfTenant,
    overlap: Annotated[
        str,
        typer.Option(help="How long the old key signs beside the new one.", metavar="DURATION"),
    ] = "24h",
    secret_file: SecretFile = None,
    secret_ref: SecretRef = None,
    ask_secret: AskSecret = False,
) -> Answer:
    """Give an endpoint a new secret; without one, it is made here and shown this once.

    Example: tidegate endpoints rotate crm --tenant acme --overlap 24h
    """
    seconds = duration(overlap, "--overlap")
    secret = secret_body(secret_file, secret_ref, ask=ask_secret)
    after = api.post(f"{_path(tenant, endpoint)}/rotate", {**secret, "overlap_seconds": seconds})
    for old in after["keys"][1:2]:
        typer.echo(f"the old key signs until {old['until']}", err=True)
    return after


@command(endpoints, "remove", tables.removed)
def remove(api: Api, endpoint: EndpointId, tenant: OfTenant) -> Answer:
    """Remove an endpoint and its keys; what was not delivered yet is parked.

    Example: tidegate endpoints remove crm --tenant acme
    """
    return api.delete(_path(tenant, endpoint))


@endpoints.command("test")
@program
def try_endpoint(api: Api, endpoint: EndpointId, tenant: OfTenant, as_json: AsJson = False) -> int:
    """Send a sample at once, in at most three attempts, and show what was answered.

    Exit codes: 0 it was delivered; 1 it was not sent; 3 no attempt delivered it.

    Example: tidegate endpoints test crm --tenant acme
    """
    found = api.post(f"{_path(tenant, endpoint)}/test", {}, within=_TESTED_WITHIN_SECONDS)
    show(found, as_json, tables.tested)
    if found["delivered"]:
        return 0
    look = api.command("deliveries", "show", found["delivery_id"])
    typer.echo(f"not delivered: mend the receiver or the endpoint; see `{look}`", err=True)
    return NOT_DELIVERED


def _path(tenant: str, endpoint: str) -> str:
    return f"/v1/tenants/{part(tenant)}/endpoints/{part(endpoint)}"


def _read(text: str | None, reading: Callable[[str], Any]) -> Any:
    return None if text is None else reading(text)


def _rate(text: str | None, *, no_rate: bool) -> Any:
    if text is not None and no_rate:
        raise typer.BadParameter("give --rate or --no-rate, not both")
    return _read(text, lambda given: rate(given, "--rate"))


def _wanted(before: Answer | None, given: Mapping[str, Any], *, no_rate: bool) -> Answer:
    """The settings to set: those of before with the changes; another format drops the mapping."""
    wanted: Answer = {name: before[name] for name in _SETTINGS} if before else {}
    wanted |= {name: value for name, value in given.items() if value is not None}
    if no_rate:
        wanted["rate"] = None
    if given["format"] not in (None, "mapped") and given["mapping"] is None:
        wanted["mapping"] = None
    return wanted
