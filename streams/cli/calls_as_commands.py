"""Tells people which command makes a call that the API's errors name as a remedy.

The API speaks HTTP to its clients: `create it with PUT /v1/tenants/acme`. A person who types
commands is told `tidegate tenants set acme`. Only the table below maps one to the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

_COMMANDS = {
    "PUT /v1/tenants/{t}": "tenants set {t}",
    "PUT /v1/tenants/{t}/sources/{s}": "sources set {s} --tenant {t} --scheme SCHEME",
    "PUT /v1/tenants/{t}/endpoints/listen": "listen --tenant {t}",
    "PUT /v1/tenants/{t}/endpoints/{e}": "endpoints set {e} --tenant {t} --to URL",
    'PUT /v1/tenants/{t}/endpoints/{e} {"enabled":true}': "endpoints set {e} --tenant {t} --enable",
    "GET /v1/jobs": "jobs list",
    "GET /v1/jobs/{id}": "jobs show {id}",
    "GET /v1/jobs/{id}/artifacts": "jobs artifacts {id}",
    "GET /v1/backlog": "jobs backlog",
    "GET /v1/job-types": "job-types list",
    "GET /v1/workflows": "workflows list",
    "GET /v1/workflows/{id}": "workflows show {id}",
    "GET /v1/limits": "limits list",
    "GET /v1/effects": "effects list",
    "GET /v1/approvals": "approvals list",
    "GET /v1/tenants/{t}/schedules": "schedules list --tenant {t}",
    "GET /v1/events": "events list",
    "GET /v1/duplicates": "events duplicates",
    "GET /v1/quarantine": "quarantine list",
    "GET /v1/dlq": "dlq list",
    "GET /v1/deliveries": "deliveries list",
    "GET /v1/replays": "replays list",
    "GET /v1/replays/{id}": "replays show {id}",
}
"""Calls with their paths' ids in braces, and the commands that make them."""
_ID = r"(?P<\1>[^\\s/?`'\"]*[\\w~-])"
"""An id in a path, without the punctuation of the sentence after it."""


def told_in_commands(detail: str, command: Callable[..., str]) -> str:
    """The detail of an error with each call in it as a command; calls without one stay.

    `command` gives the command line of a command's words.
    """
    for call, words in _FORMS:
        detail = call.sub(partial(_typed, words, command), detail)
    return detail


def _typed(words: Sequence[str], command: Callable[..., str], found: re.Match[str]) -> str:
    return f"`{command(*(word.format(**found.groupdict()) for word in words))}`"


def _pattern(call: str) -> re.Pattern[str]:
    """A pattern for the call alone, not for the beginning of a longer path."""
    return re.compile(re.sub(r"\\{(\w+)\\}", _ID, re.escape(call)) + r"(?![/\w])")


_FORMS = [
    (_pattern(call), _COMMANDS[call].split())
    for call in sorted(_COMMANDS, key=lambda call: len(re.sub(r"{\w+}", "", call)), reverse=True)
]
"""The most specific call comes first: one with a body before the same call without it."""
