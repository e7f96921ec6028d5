"""The operator's API as the command line calls it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from aiohttp import ClientConnectorError, ClientError, ClientSession, ClientTimeout, InvalidURL

from streams.dev_state import read_state
from streams.errors import ConfigError, TidegateError
from streams.settings import Settings

DEFAULT_URL = "http://127.0.0.1:8080"
ANSWERED_WITHIN_SECONDS = 30.0
_SILENT_SECONDS = 90.0
"""The operator waits for memory and for the store of artifacts before a body begins."""
_LATER = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
"""Answers of a process that is starting, or of a proxy that cannot reach it."""


class _Sent(NamedTuple):
    status: int
    raw: bytes
    etag: str | None


class CallFailed(TidegateError):
    """The API refused a call, or did not answer; `name` is the problem's, such as `job-unknown`.

    `remedy` is the call that helps, as the problem has it.
    """

    def __init__(
        self, message: str, name: str = "", remedy: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.name = name
        self.remedy = remedy


class NoAnswer(CallFailed):
    """The API cannot be reached, or cannot answer at present; it may do so later."""


class NotReached(NoAnswer):
    """Nothing answers at the API's address; the message gives no remedy."""


class TokenRefused(CallFailed):
    """The API does not know the token."""


def api_url(settings: Settings, given: str | None, data_dir: Path | None) -> str:
    """The API's address: the given one, otherwise that of a running `dev`, otherwise 8080 here.

    Raises:
        ConfigError: a directory is given and no `dev` runs in it. Another one may run on 8080.
    """
    if address := given or _dev_url(settings):
        return address
    if data_dir is not None:
        raise ConfigError(f"{no_dev(data_dir)}, or name the operator's API with --url")
    return DEFAULT_URL


def no_dev(data_dir: Path) -> str:
    """The beginning of an error: nothing runs in the directory that a person named."""
    return f"no `tidegate dev` runs in {data_dir}: start one with `{_start(data_dir)}`"


def remedy(settings: Settings, given: str | None) -> str:
    """What to do when nothing answers at the address that `api_url` found."""
    if given or _dev_url(settings) is None:
        return "start one with `tidegate dev`, or name another with --url"
    where = settings.data_dir
    return (
        f"{where} keeps this address from a `tidegate dev` that was killed: start it again with "
        f"`{_start(where)}`, or name another API with --url"
    )


def _dev_url(settings: Settings) -> str | None:
    """The address of the `dev` that runs in the data directory, or was killed there."""
    url = read_state(settings.data_dir).get("url")
    return url if isinstance(url, str) else None


def _start(data_dir: Path) -> str:
    return shlex.join(["tidegate", "dev", "--data-dir", str(data_dir)])


def admin_token(settings: Settings, file: Path | None) -> str:
    """The token: from a given file, otherwise TIDEGATE_ADMIN_TOKEN, otherwise what `dev` wrote.

    Raises:
        ConfigError: there is none.
    """
    if file is None and settings.admin_token is not None:
        return settings.admin_token.get_secret_value().strip()
    path = _token_file(settings, file)
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise ConfigError(
            f"no admin token: {path}: {error.strerror}; set TIDEGATE_ADMIN_TOKEN, or name "
            "a file with --token-file, or the directory of `tidegate dev` with --data-dir or "
            "TIDEGATE_DATA_DIR"
        ) from error
    if not token:
        raise ConfigError(f"no admin token: {path} is empty")
    return token


def token_origin(settings: Settings, file: Path | None) -> str:
    """Where `admin_token` found the token, for a message."""
    if file is None and settings.admin_token is not None:
        return "TIDEGATE_ADMIN_TOKEN"
    return str(_token_file(settings, file))


def _token_file(settings: Settings, file: Path | None) -> Path:
    return file or settings.data_dir / "admin.token"


def call(
    url: str,
    token: str,
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    within: float = ANSWERED_WITHIN_SECONDS,
) -> dict[str, Any]:
    """Call the API; returns the answer's JSON object, which may take `within` seconds.

    Raises:
        TokenRefused: `token` is not the API's.
        NotReached: nothing answers at `url`.
        NoAnswer: the API cannot answer yet, or did not; it may have done what was asked.
        CallFailed: the API refused, with the problem's detail.
    """
    key = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    headers, timeout = {**(headers or {}), **key}, ClientTimeout(total=within)
    sent = _sent(
        url, token, method, path, params=query, json=body, headers=headers, timeout=timeout
    )
    return answer_of(url, sent.status, sent.raw)


def look(url: str, token: str, path: str) -> tuple[dict[str, Any], str | None]:
    """The JSON object and the `ETag` of a GET's answer; raises what `call` raises."""
    sent = _sent(url, token, "GET", path, timeout=ClientTimeout(total=ANSWERED_WITHIN_SECONDS))
    return answer_of(url, sent.status, sent.raw), sent.etag


def download(url: str, token: str, path: str) -> bytes:
    """The bytes of a GET's answer, which may take long but not stop; raises what `call` raises."""
    connect = ANSWERED_WITHIN_SECONDS
    timeout = ClientTimeout(total=None, sock_connect=connect, sock_read=_SILENT_SECONDS)
    sent = _sent(url, token, "GET", path, timeout=timeout)
    if sent.status >= HTTPStatus.MULTIPLE_CHOICES:
        answer_of(url, sent.status, sent.raw)
    return sent.raw


def _sent(url: str, token: str, method: str, path: str, **request: Any) -> _Sent:
    async def send() -> _Sent:
        headers = {"Authorization": f"Bearer {token}"}
        where = url.rstrip("/") + path
        async with (
            ClientSession(headers=headers) as session,
            session.request(method, where, allow_redirects=False, **request) as answer,
        ):
            return _Sent(answer.status, await answer.read(), answer.headers.get("ETag"))

    try:
        return asyncio.run(send())
    except (ClientConnectorError, InvalidURL) as error:
        raise NotReached(f"no operator's API answers at {url} ({error})") from error
    except (ClientError, TimeoutError) as error:
        why = f"{error}" or type(error).__name__
        raise NoAnswer(
            f"the operator's API at {url} gave no answer ({why}): see whether it runs there"
        ) from error


def answer_of(url: str, status: int, raw: bytes) -> dict[str, Any]:
    """The JSON object of an answer.

    Raises:
        TokenRefused, NoAnswer, CallFailed: as `call`, if the answer is a problem or no JSON.
    """
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict) and status < 300:
        return found
    if isinstance(found, dict) and status == HTTPStatus.UNAUTHORIZED:
        raise TokenRefused(f"the operator at {url} refuses the token")
    if isinstance(found, dict) and "detail" in found:
        failed = NoAnswer if status in _LATER else CallFailed
        name = str(found.get("type", "")).rpartition(":")[2]
        raise failed(str(found["detail"]), name, found.get("remedy"))
    if status in _LATER:
        raise NoAnswer(f"{url} answers {status}, as a proxy does without an operator: try again")
    raise CallFailed(f"the answer of {url} ({status}) is not the operator's API's: check --url")
