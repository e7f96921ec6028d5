"""Credentials in a key-value store over HTTP, in the form of HashiCorp Vault and OpenBao.

The reference is a path below the store's `/v1/`, with the name of the field behind `#`:
`secret/data/stripe#api_key`. It may be of the KV engine, version 1 or 2, or of an engine that makes
short-lived values, such as `consul/creds/reporting#token`. Each reference is a question of its own,
so two fields of one such answer cannot be had.
https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2 describes the answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from pydantic import SecretStr

from streams.errors import PermanentError, SecretUnresolved, TransientError
from streams.tenants.secret_reference import resolve
from streams.worker.credentials.provider import Credential, Scope
from streams.worker.credentials.questions import Questions
from streams.worker.http_names import Names

_SECONDS = 60.0
"""For how long a value without a lease is used; a rotated or deleted one is noticed within it."""

_TIMEOUT = ClientTimeout(total=8.0, connect=4.0)
_MOST_BYTES = 1024 * 1024
_GONE = (404, 410)


class HttpKeyValue:
    """Asks the store once for each value, with the token in `token_file`.

    The file is read each time, because a store's agent renews the token in it.
    """

    def __init__(self, url: str, token_file: Path) -> None:
        self._url = url.rstrip("/")
        self._token_file = f"file:{token_file.absolute()}"
        self._files = Questions(resolve)

    async def get(self, reference: str, scope: Scope) -> Credential:
        """See `Provider.get`."""
        path, _, field = reference.partition("#")
        token = await self._token()
        try:
            answer = await self._asked(path, token)
        except (ClientError, OSError) as error:  # TimeoutError is an OSError
            why = type(error).__name__
            raise TransientError(f"the store of {path} does not answer ({why})") from None
        return _credential(answer, path, field or "value")

    async def _token(self) -> str:
        try:
            found = await self._files.ask(self._token_file)
        except SecretUnresolved as error:
            raise TransientError(f"the store's token cannot be read: {error}") from None
        return found.decode("ascii", "replace")

    async def _asked(self, path: str, token: str) -> Any:
        headers = {"X-Vault-Token": token, "X-Vault-Request": "true"}
        async with (
            ClientSession(
                connector=TCPConnector(resolver=Names()),
                timeout=_TIMEOUT,
                cookie_jar=DummyCookieJar(),
            ) as session,
            # A redirect would take the token to another host.
            session.get(f"{self._url}/v1/{path}", headers=headers, allow_redirects=False) as answer,
        ):
            body = await _read(answer)
            if answer.status in _GONE:
                raise PermanentError(f"{path} {_why_gone(body)}")
            if answer.status != 200:
                raise TransientError(f"the store answered {answer.status} for {path}")
            return body


async def _read(answer: ClientResponse) -> Any:
    """The JSON of an answer; None for a body that is none or too large."""
    body = await answer.content.read(_MOST_BYTES)
    while not answer.content.at_eof() and len(body) < _MOST_BYTES:
        body += await answer.content.read(_MOST_BYTES - len(body))
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _credential(answer: Any, path: str, field: str) -> Credential:
    data = _member(answer, "data")
    if isinstance(_member(data, "metadata"), dict) and "data" in data:
        data = data["data"]  # of version 2
    value = _member(data, field)
    if not isinstance(value, str):
        raise PermanentError(f"{path} has no text in its field {field!r}")
    return Credential(SecretStr(value), _seconds(answer))


def _seconds(answer: Any) -> float:
    """For how long a value may be used: as long as its lease, if it has one.

    Version 1 tells a duration without a lease, 32 days unless set: it revokes nothing then.
    """
    told = _member(answer, "lease_duration")
    seconds = float(told) if isinstance(told, int | float) and told > 0 else _SECONDS
    return seconds if _member(answer, "lease_id") else min(seconds, _SECONDS)


def _why_gone(body: Any) -> str:
    """What a store says of a value that it no longer has: version 2 gives the time."""
    metadata = _member(_member(body, "data"), "metadata")
    at = _member(metadata, "deletion_time")
    return f"was revoked at {at}" if isinstance(at, str) and at else "has no value in the store"


def _member(found: Any, name: str) -> Any:
    return found.get(name) if isinstance(found, dict) else None
