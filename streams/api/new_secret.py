"""A new secret in the body of a call: the secret itself, or a reference to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from streams.api.refusal import invalid
from streams.errors import SignatureError
from streams.tenants.secret_reference import check_reference
from streams.tenants.source_keys import Reference, Secret

OVERLAP_SECONDS = 86_400.0
"""Of a rotation that names none: a day, in which the other side can be given the new secret."""


class NewSecret(BaseModel):
    """A signing secret or a reference to one, never both."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret: SecretStr | None = Field(default=None, min_length=1)
    secret_ref: Annotated[str, AfterValidator(check_reference)] | None = None

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if self.secret is not None and self.secret_ref is not None:
            raise ValueError("give exactly one of secret and secret_ref")
        return self

    @property
    def has_secret(self) -> bool:
        return self.secret is not None or self.secret_ref is not None

    def checked(self, check: Callable[[bytes], object]) -> Secret:
        """Return the secret, checked, or its reference, which only its user can resolve.

        Raises:
            Refusal: 422, `check` raised SignatureError: the secret cannot be used.
        """
        if self.secret is None:
            return Reference(self.secret_ref or "")
        secret = self.secret.get_secret_value().encode()
        try:
            check(secret)
        except SignatureError as error:
            raise invalid("secret", str(error)) from None
        return secret
