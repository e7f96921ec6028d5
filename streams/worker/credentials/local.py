"""Values that the worker's own process and host hold."""

from __future__ import annotations

from pydantic import SecretStr

from streams.errors import PermanentError, SecretUnresolved
from streams.tenants.secret_reference import resolve
from streams.worker.credentials.provider import Credential


def local(reference: str, seconds: float) -> Credential:
    """The credential behind `env:NAME` or `file:/path`.

    Raises:
        PermanentError: there is none, or it is not text.
    """
    try:
        return Credential(SecretStr(resolve(reference).decode()), seconds)
    except SecretUnresolved as error:
        raise PermanentError(str(error)) from None
    except UnicodeDecodeError:
        raise PermanentError(f"{reference} leads to bytes that are no UTF-8 text") from None
