"""Bodies of the calls that approve or reject what a job asks for."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from streams.api.fields import Body, Name, Writable, bounded


class DecisionRequest(Body):
    """Body of a rejection; `by` names the person for whom an administrator vouches."""

    note: Annotated[str, AfterValidator(bounded)] = ""
    by: Name | None = None


class ApproveRequest(DecisionRequest):
    """Body of an approval; `edit` are changed arguments."""

    edit: Writable = None
