"""Tells people which command makes the call that a problem of the API names as its remedy.

The API speaks HTTP to its clients: `create it with PUT /v1/tenants/acme`. A person who types
commands is told `tidegate tenants set acme`. Only the table below maps one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import orjson

_COMMANDS = {
    "PUT /v1/tenants/{t}": "tenants set {t}",
    "PUT /v1/tenants/{t}/sources/{s}": "sources set {s} --tenant {t} --scheme SCHEME",
    "PUT /v1/tenants/{t}/endpoints/listen": "listen --tenant {t}",
    'PUT /v1/tenants/{t}/endpoints/{e} {"enabled":true}': "endpoints set {e} --tenant {t} --enable",
    "PUT /v1/tenants/{t}/endpoints/{e}": "endpoints set {e} --tenant {t} --to URL",
    "GET /v1/tenants/{t}": "tenants show {t}",
    "GET /v1/tenants/{t}/sources/{s}": "sources show {s} --tenant {t}",
    "GET /v1/tenants/{t}/endpoints/{e}": "endpoints show {e} --tenant {t}",
    "GET /v1/tenants/{t}/schedules/{s}": "schedules show {s} --tenant {t}",
    "GET /v1/jobs?status=needs_review": "jobs review",
    "GET /v1/jobs": "jobs list",
    "GET /v1/jobs/{id}": "jobs show {id}",
    "GET /v1/jobs/{id}/artifacts": "jobs artifacts {id}",
    "GET /v1/backlog": "jobs backlog",
    "GET /v1/job-types": "job-types list",
    "GET /v1/workflows": "workflows list",
    "GET /v1/workflows/{id}": "workflows show {id}",
    "GET /v1/limits": "limits list",
    "GET /v1/workers": "workers list",
    'POST /v1/limits/resume {"scope":"{scope}","value":"{value}"}': "limits resume {scope} {value}",
    "GET /v1/effects": "effects list",
    "GET /v1/approvals": "approvals list",
    "GET /v1/approvals/{id}": "approvals show {id}",
    "GET /v1/tenants/{t}/schedules": "schedules list --tenant {t}",
    "GET /v1/events": "events list",
    "GET /v1/quarantine": "quarantine list",
    "GET /v1/dlq": "dlq list",
    "GET /v1/causes": "causes list",
    "GET /v1/deliveries": "deliveries list",
    "GET /v1/replays": "replays list",
    "GET /v1/tokens": "tokens list",
    "GET /v1/replays/{id}": "replays show {id}",
    "GET /v1/bulk": "bulk list",
    "GET /v1/bulk/{id}": "bulk show {id}",
}
"""Calls with the ids of their paths and bodies in braces, and the commands that make them; the
first that fits counts."""


def told_in_commands(
    detail: str, remedy: Mapping[str, Any] | None, command: Callable[..., str]
) -> str:
    """The detail of a problem with its remedy as a command; a call without one stays.

    `command` gives the command line of a command's words.
    """
    if remedy is None:
        return detail
    call = [remedy["method"], remedy["path"]]
    if "body" in remedy:
        call.append(orjson.dumps(remedy["body"]).decode())
    words = words_of(remedy)
    return detail if words is None else detail.replace(" ".join(call), f"`{command(*words)}`")


def words_of(remedy: Mapping[str, Any]) -> list[str] | None:
    """The words of the command that makes a call; None without one."""
    for form, words in _COMMANDS.items():
        method, path, *body = form.split(" ", 2)
        ids = _ids(path, remedy["path"])
        values = _values(orjson.loads(body[0]) if body else None, remedy.get("body"))
        if method == remedy["method"] and ids is not None and values is not None:
            return [word.format(**ids, **values) for word in words.split()]
    return None


def _values(form: Mapping[str, Any] | None, body: Mapping[str, Any] | None) -> Any:
    """The values of a body by their names in a form; None if the body has another form."""
    if form is None or body is None:
        return {} if form is body else None
    named = {key for key, value in form.items() if value == f"{{{key}}}"}
    same = form.keys() == body.keys() and all(form[key] == body[key] for key in form.keys() - named)
    return {key: body[key] for key in named} if same else None


def _ids(form: str, path: str) -> dict[str, str] | None:
    """The ids in a path, by their names in a form; None if the path has another form."""
    names, parts = form.split("/"), path.split("/")
    if len(names) != len(parts):
        return None
    pairs = list(zip(names, parts, strict=True))
    if any(name != part for name, part in pairs if not name.startswith("{")):
        return None
    return {name.strip("{}"): unquote(part) for name, part in pairs if name.startswith("{")}
