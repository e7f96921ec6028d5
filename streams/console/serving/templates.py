"""The templates' environment: what each page knows, and how values are written.

Every text that is written passes `visible`: characters that would change how a page is read, such
as those that turn the direction of text, are shown as escapes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web
from jinja2 import ChainableUndefined, Environment, FileSystemLoader

from streams.api.refusal import Refusal
from streams.api.serving.call import PRINCIPAL, Call, call_of
from streams.api.serving.session import SESSION
from streams.console.overview.finding import page_of_id
from streams.console.screens import SCREENS
from streams.console.serving import files, telling, written
from streams.serde.ids import new_id

_FOLDER = Path(__file__).parent.parent

_PATTERN = re.compile(r":[^{}]*\}")
"""What a part of a path must look like, which its name in the documents leaves out."""

_CALLS: web.AppKey[dict[str, Call]] = web.AppKey("console_calls", dict[str, Call])


@cache
def environment() -> Environment:
    """Return the environment; templates are named from `streams/console/`."""
    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=written.visible,
    )
    made.filters.update(written.FILTERS, page_of_id=page_of_id)
    made.globals.update(screens=SCREENS, file=files.url, new_key=lambda: new_id("idem"))
    return made


def rendered(request: web.Request, template: str, nonce: str, data: Mapping[str, Any]) -> str:
    """Return a page's HTML."""
    session = request.get(SESSION)
    common = {
        "principal": request.get(PRINCIPAL),
        "csrf": "" if session is None else session.csrf_token,
        "nonce": nonce,
        "told": telling.told(request),
        "here": request.path_qs,
        "path": request.path,
        "query": request.query,
        "may": _may(request),
        "selects": functools.partial(_selects, request.query),
    }
    return environment().get_template(template).render({**common, **data})


def declare_calls(app: web.Application) -> None:
    """Let templates ask for the declarations of an application's routes."""
    app[_CALLS] = {
        f"{call.method} {_PATTERN.sub('}', call.path)}": call
        for route in app.router.routes()
        if (call := call_of(route.handler)) is not None
    }


def _selects(
    query: Mapping[str, str], carried: Collection[str], beside: Collection[tuple[str, str]]
) -> bool:
    """Return whether an act that has these filters of a list selects what the list shows.

    Those `beside` leave out of the list what no act takes anyway.
    """
    known = {*carried, "limit", "cursor"}
    return all(
        not value or name in known or (name, value) in beside for name, value in query.items()
    )


def _may(request: web.Request) -> Callable[..., bool]:
    """Return what tells whether who looks may make a call, by its path as it is declared."""

    def may(call: str, tenant_id: str | None = None) -> bool:
        declared, principal = request.app[_CALLS][call], request.get(PRINCIPAL)
        if principal is None:
            return False
        try:
            declared.require(principal, tenant_id)
        except Refusal:
            return False
        return tenant_id is None or principal.covers(tenant_id)

    return may
