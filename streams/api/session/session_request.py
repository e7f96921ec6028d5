"""Bodies of the calls that end sessions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streams.api.fields import Body, noted


class LogoutRequest(Body):
    """Body of `POST /v1/session/logout`; `everywhere` ends all sessions of the person."""

    everywhere: bool = False


class EndRequest(Body):
    """Body of `POST /v1/session/end`; `principal` is the id of a person."""

    principal: Annotated[str, Field(pattern=r"^person:[^:]+:[^\x00-\x1f\x7f]+$", max_length=500)]
    note: Annotated[str, noted("say why the person's sessions end")]
