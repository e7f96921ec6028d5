"""Approvals: what jobs ask of people, opened for whoever may read payloads."""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple, get_args

from streams import user_json
from streams.api.rows.json_values import Json
from streams.api.rows.paging import Operator, Page, PagedList, PageQuery, newest
from streams.api.rows.table import Row, Table, find
from streams.api.tenants import table as tenants
from streams.errors import VaultError
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.approval_states import ApprovalStatus
from streams.serde.codec import APPROVAL
from streams.serde.records import Approval, Sealed
from streams.vault.data_key import DataKey
from streams.vault.key_encryption import Vault
from streams.vault.sealed_json import open_json, seal_json


class Shown(NamedTuple):
    """An approval, and what is sealed in it; None for what cannot be opened any more.

    `asked` is also None if its arguments are not those of the digests, which the ledger compares.
    """

    approval: Approval
    asked: Json | None
    edit: Json | None


def approval(connection: sqlite3.Connection, vault: Vault, id_: str) -> Shown | None:
    """Return the newest state of an approval."""
    found = find(connection, APPROVAL, "approvals", id=id_)
    return None if found is None else _shown(connection, vault, found)


def _page(connection: sqlite3.Connection, query: PageQuery, operator: Operator) -> Page:
    """Return approvals, newest first."""
    rows, after = newest(connection, TABLE.name, ("at", "id"), query)
    found = (_shown(connection, operator.vault, APPROVAL.decode(row.record)) for row in rows)
    return Page(tuple(map(approval_json, found)), after)


def approval_json(shown: Shown) -> Json:
    """Return an approval; `prompt` and `arguments` are null if they cannot be shown."""
    approval, asked, _ = shown
    arguments = asked["arguments"] if asked else [None] * len(approval.effects)
    return {
        "approval_id": approval.approval_id,
        "tenant_id": approval.tenant_id,
        "job_id": approval.job_id,
        "key": approval.key,
        "prompt": asked["prompt"] if asked else None,
        "effects": [
            {"tool": effect.tool, "key": effect.key, "arguments": given}
            for effect, given in zip(approval.effects, arguments, strict=True)
        ],
        "status": approval.status,
        "by": approval.by,
        "note": approval.note,
        "expires_at": rfc3339(approval.expires_at),
    }


def details_json(shown: Shown) -> Json:
    """Return who decided what, under which rule, and the digests of the arguments."""
    approval, _, edit = shown
    return {
        "policy": approval.policy,
        "submitter": approval.submitter,
        "approvers": approval.approvers,
        "quorum": approval.quorum,
        "asked_at": rfc3339(approval.asked_at),
        "ended_at": rfc3339(approval.ended_at),
        "edit": edit["edit"] if edit else None,
        "votes": [
            {"approved": v.approved, "by": v.by, "note": v.note, "at": rfc3339(v.at)}
            for v in approval.votes
        ],
        "digests": [
            {
                "arguments_sha256": effect.digest.hex(),
                "edited_sha256": effect.edited_digest.hex() if effect.edited_digest else None,
            }
            for effect in approval.effects
        ],
    }


def seal_edit(
    connection: sqlite3.Connection, vault: Vault, approval: Approval, value: Any
) -> Sealed:
    """Seal an edit under the key that sealed the question.

    Raises:
        VaultError: the key is destroyed.
    """
    key = _key(connection, vault, approval, approval.asked)
    return seal_json(key, vault, approval.tenant_id, approval.approval_id, value)


def _shown(connection: sqlite3.Connection, vault: Vault, found: Approval) -> Shown:
    asked, edit = (_opened(connection, vault, found, each) for each in (found.asked, found.edit))
    is_it = asked is not None and _digests(asked) == [effect.digest for effect in found.effects]
    return Shown(found, asked if is_it else None, edit)


def _digests(asked: Json) -> list[bytes]:
    return [user_json.digest(arguments) for arguments in asked["arguments"]]


def _opened(
    connection: sqlite3.Connection, vault: Vault, approval: Approval, sealed: Sealed | None
) -> Json | None:
    if sealed is None or tenants.erasure(connection, approval.tenant_id):
        return None
    try:
        key = _key(connection, vault, approval, sealed)
        found: Json = open_json(key, vault, approval.tenant_id, approval.approval_id, sealed)
    except VaultError:
        return None
    return found


def _key(
    connection: sqlite3.Connection, vault: Vault, approval: Approval, sealed: Sealed
) -> DataKey | None:
    if not sealed.key_id:
        return None
    record = tenants.setting(connection, approval.tenant_id, "data_key", sealed.key_id)
    if record is None:
        raise VaultError(f"data key {sealed.key_id} of tenant {approval.tenant_id} is not known")
    return DataKey(vault, record)


def _row(record: Record) -> Row:
    found = APPROVAL.decode(record.value)
    return (
        found.tenant_id,
        found.scope,
        found.approval_id,
        found.job_id,
        found.status,
        found.asked_at,
        record.value,
    )


TABLE = Table(
    name="approvals",
    topic="approvals",
    key="tenant_id TEXT, scope TEXT, id TEXT",
    columns="job_id TEXT NOT NULL, status TEXT NOT NULL, at INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    indexes={
        "newest": "(at, id)",
        "by_id": "(id)",
        "of_tenant": "(tenant_id, at, id)",
        "of_job": "(tenant_id, job_id, at, id)",
        "by_status": "(status, at, id)",
        "of_tenant_by_status": "(tenant_id, status, at, id)",
    },
)
LISTING = PagedList(
    TABLE.name,
    ("/v1/approvals",),
    _page,
    {"tenant_id": (), "status": get_args(ApprovalStatus)},
)
