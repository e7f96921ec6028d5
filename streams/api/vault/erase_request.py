"""Body of the call that erases a tenant."""

from __future__ import annotations

from typing import Annotated

from streams.api.fields import Body, noted


class ErasureRequest(Body):
    """Body of `POST /v1/tenants/{t}/erase`; the note is kept for ever."""

    note: Annotated[str, noted("must say why the tenant is erased; name nobody in it")]
