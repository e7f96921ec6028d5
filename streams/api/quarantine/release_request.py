"""Body of the call that releases a body from the quarantine."""

from __future__ import annotations

from typing import Annotated

from streams.api.fields import Body, noted


class ReleaseRequest(Body):
    """Body of `POST /v1/quarantine/{id}/release`; the note is kept."""

    note: Annotated[str, noted("must say what was mended")]
