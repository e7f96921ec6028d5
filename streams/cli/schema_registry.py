"""Publishes our schemas to an external schema registry, under the ids that our records bear.

A registry gives ids of its own unless a subject is in the mode IMPORT. So each subject is put into
that mode, gets its versions with their ids, and goes back. Source: Confluent's Schema Registry API,
"Mode" and "Subjects".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from streams.errors import ConfigError, TidegateError
from streams.serde.schemas import Schema, digest
from streams.serde.subjects import subjects, versions

_TIMEOUT_SECONDS = 15
_TYPE = "application/vnd.schemaregistry.v1+json"


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
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("the registry's URL must begin with http:// or https:// and a host")
        host = parts.hostname + (f":{parts.port}" if parts.port else "")
        self.url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"Content-Type": _TYPE, "Accept": _TYPE}
        if parts.username is not None:
            pair = f"{parts.username}:{parts.password or ''}".encode()
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

    def publish(self, wanted: Sequence[Missing]) -> None:
        """Register what is missing; a repeated call goes on where one ended.

        Raises:
            RegistryRefused: the registry does not take it.
        """
        for subject in dict.fromkeys(each.subject for each in wanted):
            path = quote(subject, safe="")
            self._call("PUT", f"/mode/{path}?force=true", {"mode": "IMPORT"})
            for schema in (each.schema for each in wanted if each.subject == subject):
                body = {"schema": schema.text, "schemaType": "AVRO", "id": schema.id,
                        "version": schema.version}  # fmt: skip
                self._call("POST", f"/subjects/{path}/versions", body)
            self._call("PUT", f"/mode/{path}", {"mode": "READWRITE"})

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
            with urlopen(asked, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                return json.loads(answer.read() or b"null")
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


_REMEDY = (
    "records name their schemas by these ids, so use a registry of its own, or a context of this "
    "one (URL/contexts/:.tidegate:)"
)


def _same(found: dict[str, Any], schema: Schema) -> bool:
    try:
        return digest(json.loads(found["schema"])) == digest(json.loads(schema.text))
    except Exception:  # what a registry holds may be no Avro at all
        return False
