"""Writes the document and its page anew."""

from __future__ import annotations

from support.api_document.files import DOCUMENT, PAGE, document_text, page_text

DOCUMENT.write_text(document_text())
PAGE.write_text(page_text())
