"""`tidegate sources ...`: vendors' connections of a tenant, from a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from ingress.schemes import SCHEMES
from streams.api.sources import cli_tables as tables
from streams.api.sources.cli_advice import after_rotation, has_a_secret
from streams.cli.changes import changed, tell_changes
from streams.cli.operator_command import (
    Answer,
    Api,
    Seen,
    command,
    part,
    program,
    require_tenant,
    seen,
    show,
)
from streams.cli.options import AsJson, Ingress, OfTenant, Tenant
from streams.cli.quantities import duration
from streams.cli.signing_secret import (
    NONE,
    Generate,
    SecretFile,
    SecretRef,
    asked_secret,
    given_secret,
)
from streams.cli.tables import one

sources = typer.Typer(
    no_args_is_help=True, help="List, show, set, rotate, disable and test sources."
)

_HOW = f"How its vendor signs: {', '.join(SCHEMES)}."
Name = Annotated[str, typer.Argument(metavar="NAME")]
_SETTINGS = ("scheme", "mapping", "options", "dedup_by", "callback_url", "max_body_bytes")
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)
_PAGE = 200
_SHOWN = (*_SETTINGS, "secrets", "secret_ref")
NOT_ACCEPTED = 3
"""The exit code of a test that the source did not accept."""


@command(sources, "list", tables.sources)
def list_sources(api: Api, tenant: Tenant = None) -> Answer:
    """List the sources of all tenants, or of one, by name; disabled ones too.

    Example: tidegate sources list --tenant acme
    """
    of = "" if tenant is None else f"/tenants/{part(tenant)}"
    found: Answer = {"sources": [], "next_cursor": None}
    while True:
        page = api.get(f"/v1{of}/sources", limit=_PAGE, cursor=found["next_cursor"])
        found = {**page, "sources": found["sources"] + page["sources"]}
        if page["next_cursor"] is None:
            return found


@command(sources, "show", one)
def show_source(api: Api, name: Name, tenant: OfTenant, ingress: Ingress = None) -> Answer:
    """Show a source, the URL that its vendor calls, and until when old secrets verify.

    Example: tidegate sources show shop --tenant acme
    """
    return api.get(_path(tenant, name)) | {"hook_url": hook_url(api, ingress, tenant, name)}


@command(sources, "set", one)
def set_source(
    api: Api,
    name: Name,
    tenant: OfTenant,
    scheme: Annotated[str | None, typer.Option(help=_HOW, metavar="SCHEME")] = None,
    secret_file: SecretFile = None,
    secret_ref: SecretRef = None,
    generate: Generate = False,
    option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the scheme; NAME= removes it.", metavar="NAME=VALUE"),
    ] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            help="Where a field is in the body, as event_type=kind or attributes.total=order.total;"
            " FIELD= removes it.",
            metavar="FIELD=JMESPATH",
        ),
    ] = None,
    dedup_by: Annotated[
        str | None,
        typer.Option(
            help="What makes two deliveries one event: key, the dedup key in the body (the"
            " default); header:NAME, a header's value; request, nothing, each is its own event.",
            metavar="key|header:NAME|request",
        ),
    ] = None,
    callback_url: Annotated[
        str | None,
        typer.Option(help="Where ends of its jobs are told; '' for nowhere.", metavar="URL"),
    ] = None,
    max_body_bytes: Annotated[
        int | None,
        typer.Option(help="Largest body that is taken. (1 MiB by default)", metavar="BYTES"),
    ] = None,
    ingress: Ingress = None,
) -> Answer:
    """Create a source, or change the settings that are given; the others stay as they are.

    A new source, another scheme and a disabled source need a secret, which is asked for on a
    terminal. A new secret for a live source ends the old ones at once; `rotate` lets them overlap.
    --generate never does that: it is refused while the source has a secret.

    Example: tidegate sources set shop --tenant acme --scheme stripe --secret-file -
    """
    path, known = _path(tenant, name), _seen(api, tenant, name)
    before = known.found
    wanted = _wanted(before, scheme, option or (), mapping or ())
    wanted |= {} if dedup_by is None else {"dedup_by": dedup_by}
    wanted |= {} if callback_url is None else {"callback_url": callback_url or None}
    wanted |= {} if max_body_bytes is None else {"max_body_bytes": max_body_bytes}
    keeps = before and not before["disabled"] and before["scheme"] == wanted["scheme"]
    secret = given_secret(secret_file, secret_ref, generate, wanted["scheme"])
    if keeps and generate:
        raise has_a_secret(api, name, tenant)
    secret = secret or (NONE if keeps else asked_secret(wanted["scheme"]))
    after = api.put(path, {**wanted, **secret.body}, known)
    tell_changes(f"source {name} of tenant {tenant}", before, after, _SHOWN)
    if keeps and secret.body:
        typer.echo("the new secret alone verifies from now on", err=True)
    url = hook_url(api, ingress, tenant, name)
    typer.echo(f"have the vendor call {url}", err=True)
    return {**after, "hook_url": url, **secret.shown}


@command(sources, "rotate", one)
def rotate(
    api: Api,
    name: Name,
    tenant: OfTenant,
    overlap: Annotated[
        str, typer.Option(help="How long the old secret still verifies.", metavar="DURATION")
    ] = "24h",
    secret_file: SecretFile = None,
    secret_ref: SecretRef = None,
    generate: Generate = False,
    ingress: Ingress = None,
) -> Answer:
    """Give a source a new secret; the old one verifies until the overlap is over.

    Secrets of earlier rotations keep their own ends. It says when each ends, and who has to get
    the new one by when.

    Example: tidegate sources rotate shop --tenant acme --overlap 24h --generate
    """
    seconds, path = duration(overlap, "--overlap"), _path(tenant, name)
    scheme = api.get(path)["scheme"]
    secret = given_secret(secret_file, secret_ref, generate, scheme) or asked_secret(scheme)
    after = api.post(f"{path}/rotate", {**secret.body, "overlap_seconds": seconds})
    url = hook_url(api, ingress, tenant, name)
    for line in after_rotation(api, after, url, at_once=seconds == 0):
        typer.echo(line, err=True)
    return {**after, "hook_url": url, **secret.shown}


@command(sources, "disable", tables.disabled_source)
def disable(api: Api, name: Name, tenant: OfTenant) -> Answer:
    """Disable a source and delete its secrets; `set` with a secret enables it again.

    Example: tidegate sources disable shop --tenant acme
    """
    return api.delete(_path(tenant, name))


@sources.command("test")
@program
def try_source(
    api: Api,
    name: Name,
    tenant: OfTenant,
    sample: Annotated[
        str | None,
        typer.Option(help="A sample of the scheme. (its first by default)", metavar="NAME"),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Have the operator take in a sample, signed under the source's secret, as a delivery.

    Its job runs as for a delivery. `tidegate send` goes through the ingress, with any body.

    Exit codes: 0 it was accepted; 1 it was not sent; 3 it was refused or is in quarantine.

    Example: tidegate sources test shop --tenant acme
    """
    found = api.post(f"{_path(tenant, name)}/test", {} if sample is None else {"sample": sample})
    show(found, as_json, tables.tested)
    return 0 if found["outcome"] in ("accepted", "duplicate") else NOT_ACCEPTED


def hook_url(api: Api, ingress: str | None, tenant: str, name: str) -> str:
    """The URL to which a source's vendor delivers."""
    return f"{(ingress or api.url).rstrip('/')}/v1/hooks/{part(tenant)}/{part(name)}"


def _path(tenant: str, name: str) -> str:
    return f"/v1/tenants/{part(tenant)}/sources/{part(name)}"


def _seen(api: Api, tenant: str, name: str) -> Seen:
    """The source before the change; an unknown tenant is told before a secret is asked for."""
    require_tenant(api, tenant)
    return seen(api, _path(tenant, name))


def _wanted(
    before: Answer | None, scheme: str | None, options: Sequence[str], mapping: Sequence[str]
) -> Answer:
    """The settings to set: those of before with the changes, or new ones for another scheme."""
    if before is None or (scheme is not None and scheme != before["scheme"]):
        if scheme is None:
            raise typer.BadParameter("a new source needs its scheme", param_hint="--scheme")
        kept: Answer = (
            {}
            if before is None
            else {name: before[name] for name in ("callback_url", "max_body_bytes")}
        )
        kept |= {"scheme": scheme, "options": {}, "mapping": {}}
    else:
        kept = {name: before[name] for name in _SETTINGS}
    return {
        **kept,
        "options": _typed(kept["scheme"], changed(kept["options"], options, "--option")),
        "mapping": _mapping(kept["mapping"], mapping),
    }


def _typed(scheme: str, options: Answer) -> Answer:
    """Options with numbers where the scheme has numbers; the API refuses what is none."""
    fields = SCHEMES[scheme].options.model_fields if scheme in SCHEMES else {}
    numbers = {name for name, field in fields.items() if field.annotation in (float, float | None)}
    return {
        name: float(value) if name in numbers and _NUMBER.fullmatch(str(value)) else value
        for name, value in options.items()
    }


def _mapping(kept: Answer, given: Sequence[str]) -> Answer:
    attributes = [each for each in given if each.startswith("attributes.")]
    fields = changed(kept, [each for each in given if each not in attributes], "--mapping")
    if fields.get("attributes", {}) != kept.get("attributes", {}) and fields.get("attributes"):
        form = "write attributes.NAME=JMESPATH, once for each"
        raise typer.BadParameter(form, param_hint="--mapping")
    inner = [each.removeprefix("attributes.") for each in attributes]
    attributes_now = changed(fields.get("attributes", {}), inner, "--mapping")
    others = {name: path for name, path in fields.items() if name != "attributes"}
    return {**others, "attributes": attributes_now} if attributes_now else others
