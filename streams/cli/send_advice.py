"""What to do next about a delivery that was refused, or that no route made into a job."""

from __future__ import annotations

import json
from pathlib import Path

from ingress.schemes import SignedRequest
from streams.cli.delivery import Reply, normalized
from streams.cli.operator_command import Answer, Api, part
from streams.errors import Misfit


def refused(
    api: Api, source: Answer, delivery: SignedRequest, reply: Reply, secret_file: Path | None
) -> str:
    """Why the ingress did not accept the delivery, and the next step."""
    if reply.status < 300 and reply.outcome != "quarantined":
        return f"the ingress answered {reply.status} and took no event: it was a vendor's handshake"
    match reply.outcome:
        case "unauthorized":
            advice = _unauthorized(api, source, secret_file)
        case "malformed-body":
            advice = f"{_misfit(source, delivery)}: correct the body"
        case "quarantined":
            advice = _quarantined(api, source, delivery, reply)
        case "rate-limited":
            show = api.command("tenants", "show", source["tenant_id"])
            advice = f"the tenant is over its rate: `{show}`"
        case "backlog-full":
            show = api.command("jobs", "backlog")
            advice = f"too many jobs are waiting: `{show}` says where"
        case "too-large":
            advice = _too_large(api, source, delivery)
        case "not-found":
            advice = f"no ingress serves {delivery.url}: name one with --ingress"
        case _:
            told = reply.document.get("detail") or reply.document.get("title")
            advice = str(told or "no further word")
    return f"{reply.status} {reply.outcome}: {advice}"


def _quarantined(api: Api, source: Answer, delivery: SignedRequest, reply: Reply) -> str:
    event_id = str(reply.document.get("event_id"))
    return (
        f"{_misfit(source, delivery)}; correct the mapping with "
        f"`{_set(api, source, '--mapping', 'FIELD=JMESPATH')}`, then "
        f"`{api.command('quarantine', 'release', event_id, '--note', 'TEXT')}`"
    )


def _too_large(api: Api, source: Answer, delivery: SignedRequest) -> str:
    return (
        f"the body has {len(delivery.body)} bytes and the source takes "
        f"{source['max_body_bytes']}: `{_set(api, source, '--max-body-bytes', 'N')}`"
    )


def _set(api: Api, source: Answer, *options: str) -> str:
    """The command that changes the source's settings."""
    return api.command(
        "sources", "set", source["source"], "--tenant", source["tenant_id"], *options
    )


def _unauthorized(api: Api, source: Answer, secret_file: Path | None) -> str:
    name, tenant = source["source"], source["tenant_id"]
    if api.get(f"/v1/tenants/{part(tenant)}")["disabled"]:
        enable = api.command("tenants", "set", tenant)
        return f"tenant {tenant} is disabled: enable it with `{enable}`"
    if secret_file is not None:
        return (
            f"the ingress does not take this signature: the secret in {secret_file} is not that of "
            f"source {name}, or the source was set less than 2 s ago and the ingress does not know "
            "it yet; compare them, or let the operator sign, without --secret-file"
        )
    counts = api.command("rejections", "list", "--tenant", tenant)
    return (
        "the ingress does not take this signature: it may belong to another pipeline than the "
        f"operator (see --ingress), or not know source {name} yet; `{counts}` shows the cause"
    )


def _misfit(source: Answer, delivery: SignedRequest) -> str:
    """Why the body does not fit the source's settings."""
    try:
        normalized(source, delivery)
    except Misfit as error:
        return f"the body does not fit source {source['source']}: {error}"
    return f"the body does not fit the settings that source {source['source']} had just now"


def unrouted(api: Api, source: Answer, delivery: SignedRequest, first: Reply) -> str:
    """Which route would give the event a job; of one that was delivered before, where to look."""
    if first.outcome == "duplicate":
        return (
            f"a duplicate of {first.document['event_id']}, which has no job: the type and headers "
            f"of its first delivery count. See `{api.command('events', 'list', '--unrouted')}`; "
            "change the body to send a new event"
        )
    found, name = normalized(source, delivery), source["source"]
    event_type = json.dumps(found.event_type)
    route = api.command("events", "route", first.document["event_id"], "--note", "TEXT")
    lines = [
        f"no route matches events {event_type} of source {name}: this one is kept without a job.",
        "Add a route to your topology file and start again:",
        "  routes:",
        f"    - match: {{source: {name}, event_type: {event_type}}}",
        "      job: YOUR_JOB",
        f"Then this event can get its job: {route}",
    ]
    return "\n".join(lines)
