"""Publishes our schemas to an external schema registry, under the ids that our records bear.

A registry gives ids of its own unless a subject is in the mode IMPORT. So each subject is put into
that mode, gets its versions with their ids, and gets its former mode back. Source: Confluent's
Schema Registry API, "Mode" and "Subjects".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from streams.errors import ConfigError, TidegateError
from streams.serde.schemas import Schema, digest
from streams.serde.subjects import subjects, versions

_TIMEOUT_SECONDS = 15
_TYPE = "application/vnd.schemaregistry.v1+json"
_IMPORT = "IMPORT"


class RegistryRefused(TidegateError):
    """A registry does not take a schema, or holds another one in its place."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A version of a subject that a registry does not have."""

    subject: str
    schema: Schema


class Registry:
    """A registry at a URL, whose user and password, if any, are used and never shown."""

    def __init__(self, url: str) -> None:
        parts = _parts(url)
        self.url = urlunsplit((parts.scheme, _address(parts), parts.path.rstrip("/"), "", ""))
        self._headers = {"Content-Type": _TYPE, "Accept": _TYPE}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"

    def missing(self, prefix: str, topics: Sequence[str]) -> Iterator[Missing]:
        """Yield what the registry does not have, oldest version of each subject first.

        Raises:
            RegistryRefused: it has another schema under one of our ids or versions.
        """
        for subject in subjects(prefix, topics):
            for schema in versions(subject, prefix, topics):
                found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{schema.version}")
                if found is None:
                    self._require_free(subject, schema)
                    yield Missing(subject, schema)
                elif found.get("id") != schema.id or not _same(found, schema):
                    raise RegistryRefused(
                        f"{subject}, version {schema.version}: {self.url} has another schema there "
                        f"(id {found.get('id')}): {_REMEDY}"
                    )

    def publish(self, prefix: str, topics: Sequence[str], wanted: Sequence[Missing]) -> None:
        """Register what is missing; a repeated call goes on where one ended.

        Raises:
            RegistryRefused: the registry does not take it.
        """
        for subject in subjects(prefix, topics):
            own = [each.schema for each in wanted if each.subject == subject]
            mode = self._mode(subject)
            if own or mode == _IMPORT:  # a call that was killed may have left it so
                self._import(subject, own, mode)

    def _import(self, subject: str, wanted: Sequence[Schema], former: str | None) -> None:
        path = quote(subject, safe="")
        self._call("PUT", f"/mode/{path}?force=true", {"mode": _IMPORT})
        try:
            for schema in wanted:
                body = {
                    "schema": schema.text,
                    "schemaType": "AVRO",
                    "id": schema.id,
                    "version": schema.version,
                }
                self._call("POST", f"/subjects/{path}/versions", body)
        finally:
            if former in (None, _IMPORT):
                self._call("DELETE", f"/mode/{path}")  # then the registry's own mode holds
            else:
                self._call("PUT", f"/mode/{path}", {"mode": former})

    def _mode(self, subject: str) -> str | None:
        found = self._get(f"/mode/{quote(subject, safe='')}")
        return None if found is None else str(found.get("mode"))

    def _require_free(self, subject: str, schema: Schema) -> None:
        found = self._get(f"/schemas/ids/{schema.id}")
        if found is not None and not _same(found, schema):
            raise RegistryRefused(
                f"{subject}: {self.url} has another schema under id {schema.id}: {_REMEDY}"
            )

    def _get(self, path: str) -> Any:
        return self._call("GET", path)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer's JSON; None if there is no such thing."""
        data = None if body is None else json.dumps(body).encode()
        asked = Request(self.url + path, data, self._headers, method=method)  # noqa: S310  checked
        try:
            with _OPENER.open(asked, timeout=_TIMEOUT_SECONDS) as answer:
                found = json.loads(answer.read() or b"null")
            if not isinstance(found, dict):
                raise ValueError(f"its answer to {method} {path} is no JSON object")
            return found
        except HTTPError as error:
            if method == "GET" and error.code == 404:
                return None
            detail = error.read(500).decode(errors="replace")
            raise RegistryRefused(
                f"{self.url} answers {error.code} to {method} {path}: {detail}: see that it is a "
                "schema registry, and that you may change modes there"
            ) from None
        except (URLError, HTTPException, OSError, ValueError) as error:
            raise RegistryRefused(f"{self.url} does not answer as a registry: {error}") from None


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: the password would go with it, to whatever host it names."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = build_opener(_NoRedirect)


def _parts(url: str) -> SplitResult:
    """A URL's parts.

    Raises:
        ConfigError: it is none, or its password must be encoded; the message does not show it.
    """
    try:
        parts = urlsplit(url)
        readable = parts.port is None or parts.port > 0
    except ValueError:
        readable = False
    # A password with a slash ends the host, and the rest of it would be shown as the path.
    if not readable or "@" in parts.path + parts.query + parts.fragment:
        raise ConfigError(
            "the registry's URL cannot be read: write it as http://user:password@host:port, and "
            "percent-encode the characters / ? # [ ] @ : in user and password"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("the registry's URL must begin with http:// or https:// and a host")
    return parts


def _address(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else str(parts.hostname)
    return host + (f":{parts.port}" if parts.port else "")


_REMEDY = (
    "records name their schemas by these ids, so use a registry of its own, or a context of this "
    "one (URL/contexts/:.tidegate:)"
)


def _same(found: dict[str, Any], schema: Schema) -> bool:
    try:
        return digest(json.loads(found["schema"])) == digest(json.loads(schema.text))
    except Exception:  # what a registry holds may be no Avro at all
        return False
