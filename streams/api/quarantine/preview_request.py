"""Body of the call that tries a mapping on a body in quarantine."""

from __future__ import annotations

from typing import Any

from streams.api.fields import Body


class PreviewRequest(Body):
    """Body of `POST /v1/quarantine/{id}/preview`.

    What is left out is as the source has it now. The mapping is that of a source.
    """

    mapping: dict[str, Any] | None = None
    dedup_by: str | None = None
