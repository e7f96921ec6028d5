"""Tenants, their sources, endpoints and keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key of a source: a sealed secret or a reference to one, and until when it verifies."""

    sealed: bytes | None = field(repr=False)
    reference: str | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class TenantRecord:
    tenant_id: str
    kind: Literal[
        "tenant",
        "source",
        "endpoint",
        "data_key",
        "erasure",
        "pause",
        "cause",
        "session_end",
        "token",
        "token_use",
    ]
    id: str
    disabled: bool
    body: str
    secrets: tuple[bytes, ...] = field(default=(), repr=False)
    updated_at: int = 0
    keys: tuple[SigningKey, ...] = ()
