"""What stands on topics in an artifact's place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from streams.errors import PermanentError

LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class Reference:
    """An artifact of a job: its id, its name, its size in bytes, and what it is.

    `of` is the job that saved it. Its tenant is that of whoever reads it, and never given.
    """

    artifact: str
    of: str
    name: str
    size: int
    content_type: str

    def as_json(self) -> dict[str, Any]:
        """The reference as a handler gets it, and as a topic keeps it."""
        return asdict(self)

    @classmethod
    def of_json(cls, value: object) -> Reference:
        """The reference that `as_json` gave.

        Raises:
            PermanentError: the value is none.
        """
        names = cls.__dataclass_fields__
        if not isinstance(value, Mapping) or value.keys() != names.keys():
            raise PermanentError(
                f"{str(value)[:80]!r} is no reference of an artifact: give what ctx.save returned"
            )
        texts = (value["artifact"], value["of"], value["name"], value["content_type"])
        if not all(map(_is_text, texts)) or type(value["size"]) is not int:
            raise PermanentError("the reference of an artifact is damaged: its fields are no text")
        return cls(**value)


def path_of_tenant(tenant_id: str) -> str:
    """The folder of a tenant's artifacts, relative to the store."""
    return f"{_part(tenant_id)}/"


def path_of_job(tenant_id: str, job_id: str) -> str:
    """The folder of a job's artifacts."""
    return f"{path_of_tenant(tenant_id)}{_part(job_id)}/"


def path_of(tenant_id: str, job_id: str, artifact: str) -> str:
    """Where an artifact lies."""
    return path_of_job(tenant_id, job_id) + _part(artifact)


def _is_text(value: object) -> bool:
    """Whether it is a text that is not empty, without lone surrogates, which no path can have."""
    return (
        isinstance(value, str) and bool(value) and not any("\ud800" <= c < "\ue000" for c in value)
    )


def _part(text: str) -> str:
    """One part of a path: it has no separator, and it does not lead to another folder."""
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if not quoted.strip(".") else quoted
