"""Body of the call that signs a delivery."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from pydantic import AfterValidator, Field

from ingress.schemes import SignedRequest
from streams.api.fields import Body, WebLink


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64") from None
    return text


class SignRequest(Body):
    """A delivery before it is signed; `url` is the one that it will be sent to."""

    url: WebLink
    body_base64: Annotated[str, AfterValidator(_base64)]
    headers: dict[str, str] = Field(default_factory=dict)

    def unsigned(self, now: float) -> SignedRequest:
        body = base64.b64decode(self.body_base64)
        return SignedRequest(self.headers, body, self.url, "POST", now)
