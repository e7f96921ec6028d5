"""The files that follow from the code: the document, which is shipped, and its page."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from support.api_document.document import document
from support.api_document.page import page
from support.api_document.source import ROOT

DOCUMENT = ROOT / "streams" / "api" / "openapi" / "openapi.json"
PAGE = ROOT / "docs" / "api.md"


@cache
def made() -> dict[str, Any]:
    """The document as the code has it now."""
    return document()


def document_text() -> str:
    return json.dumps(made(), indent=1, ensure_ascii=False) + "\n"


def page_text() -> str:
    return page(made())
