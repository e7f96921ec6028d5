"""Pages that show an answer itself, in place of the page with the form."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from streams.console.screens import modules
from streams.console.serving.asked_for import Form
from streams.console.serving.asking import Answer, Asking
from streams.console.serving.page import Answered, Page

ANSWERS: web.AppKey[Mapping[str, Answered]] = web.AppKey("console_answers", dict)


async def shown(request: web.Request, asking: Asking, form: Form, answer: Answer) -> Page:
    """Return the page that a form names for its answer."""
    return await request.app[ANSWERS].get(form.show, _once)(asking, form, answer)


def declare_answers(app: web.Application) -> None:
    """Let forms name the pages of all screens, and those that any screen uses."""
    found: dict[str, Answered] = {"once": _once, "preview": _preview}
    for screen in modules():
        found |= screen.pages.answers
    app[ANSWERS] = found


async def _once(_: Asking, form: Form, answer: Answer) -> Page:
    """An answer with a secret, which no later one has."""
    return Page("layout/shown_once.html", "Done", {"answer": answer.json, "form": form})


async def _preview(_: Asking, form: Form, answer: Answer) -> Page:
    """What a call would do: the same form, without its dry run, does it."""
    fields = {name: value for name, value in form.fields.items() if name != "dry_run:bool"}
    data = {"answer": answer.json, "form": form, "fields": fields}
    return Page("layout/preview.html", "Preview", data)
