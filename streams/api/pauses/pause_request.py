"""Bodies of the calls that pause and resume."""

from __future__ import annotations

from typing import Annotated

from streams.api.fields import Body, Name, noted
from streams.limits.paused import Scope


class ResumeRequest(Body):
    """Body of a resume; `by` names the person for whom an administrator vouches."""

    scope: Scope
    value: Name
    by: Name | None = None


class PauseRequest(ResumeRequest):
    """Body of a pause."""

    reason: Annotated[str, noted("say why: whoever looks for the reason reads it")]
