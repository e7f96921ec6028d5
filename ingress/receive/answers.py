"""The answers to requests that are accepted: an event's, and those to a vendor's questions."""

from __future__ import annotations

import orjson
from aiohttp import web

from ingress.receive.duplicates import Receipt
from ingress.schemes import Answer, Success

OUTCOME: web.ResponseKey[str] = web.ResponseKey("outcome", str)
"""An answer that is no problem says under this key how its delivery is counted."""
ANSWER_HEADER = "Tidegate-Answer"
"""Carries the JSON of an answer whose body has to be empty."""

_JSON = {"Content-Type": "application/json"}


def greeting(asked: Answer) -> web.Response:
    headers = {
        **asked.headers,
        "Content-Type": asked.content_type,
        "X-Content-Type-Options": "nosniff",  # it may repeat what a stranger has sent
        "Cache-Control": "no-store",
    }
    response = web.Response(status=asked.status, body=asked.body, headers=headers)
    response[OUTCOME] = "handshake"
    return response


def accepted(outcome: str, receipt: Receipt, success: Success) -> web.Response:
    """The answer to an event that is `accepted`, `duplicate` or `quarantined`."""
    answer: dict[str, str | None] = {"status": outcome, "event_id": receipt.event_id}
    if outcome != "quarantined":
        answer["job_id"] = receipt.job_id
    text = orjson.dumps(answer)
    if success.empty:
        headers = {**_JSON, ANSWER_HEADER: text.decode()}
        response = web.Response(status=success.status, headers=headers)
    else:
        status = 200 if outcome == "duplicate" else success.status
        response = web.Response(status=status, body=text + b"\n", headers=_JSON)
    response[OUTCOME] = outcome
    return response
