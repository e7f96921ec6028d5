"""A sealed artifact opens in its place alone, and not once its tenant is erased."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.sealed_artifact import sealed

from streams.artifacts.reference import Reference, path_of
from streams.artifacts.sealing import MAX_HEAD_BYTES, head_of, opened
from streams.errors import PermanentError
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.sizes import CHUNK_BYTES
from streams.vault.data_key import new_key_record
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring

VAULT = local_vault(b"v" * 32)
SIZES = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 7]


def keyring(*, has_key: bool = True) -> DataKeyring:
    book = DataKeyring(VAULT)
    if has_key:
        record = new_key_record(VAULT, "acme")
        book.apply(tenant_key("acme", "data_key", record.id), TENANT.encode(record))
    return book


def reference(content: bytes) -> Reference:
    return Reference("art_1", "job_1", "report.pdf", len(content), "application/pdf")


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("size", SIZES)
async def test_what_was_sealed_is_opened(size: int, has_key: bool) -> None:
    book, content = keyring(has_key=has_key), bytes(range(256)) * (size // 256 + 1)
    content = content[:size]
    data = b"".join(sealed(book, "acme", reference(content), content))
    assert content[:64] not in data or size < 8
    head, at = head_of(data[:MAX_HEAD_BYTES])
    assert head.reference == reference(content)
    assert at < MAX_HEAD_BYTES
    assert await opened(book, "acme", head.reference, data) == content


@pytest.mark.parametrize(
    ("tenant", "changes"),
    [("globex", {}), ("acme", {"of": "job_2"}), ("acme", {"artifact": "art_2"})],
)
async def test_it_opens_for_no_other_tenant_job_or_artifact(
    tenant: str, changes: dict[str, Any]
) -> None:
    book, content = keyring(has_key=False), b"of one customer"
    data = b"".join(sealed(book, "acme", reference(content), content))
    with pytest.raises(PermanentError):
        await opened(book, tenant, replace(reference(content), **changes), data)


async def test_a_damaged_one_is_told_and_never_read_in_part() -> None:
    book, content = keyring(), b"x" * (2 * CHUNK_BYTES + 5)
    asked = reference(content)
    head, first, second, third = sealed(book, "acme", asked, content)
    flipped = first[:-1] + bytes([first[-1] ^ 1])
    damaged = [
        head + first + second,
        head + first,
        head,
        head + second + first + third,
        head + flipped + second + third,
        head[:-1],
        b"",
        b"{}\n" + first,
    ]
    for data in damaged:
        with pytest.raises(PermanentError, match=r"damaged|has not the"):
            await opened(book, "acme", asked, data)


async def test_erasing_the_tenant_destroys_its_artifacts() -> None:
    book, content = keyring(), b"personal"
    data = b"".join(sealed(book, "acme", reference(content), content))
    book.apply(tenant_key("acme", "erasure", ""), b"erased")
    with pytest.raises(PermanentError, match="erased"):
        await opened(book, "acme", reference(content), data)
    with pytest.raises(PermanentError, match="erased"):
        list(sealed(book, "acme", reference(content), content))


def test_a_path_leaves_its_tenants_folder_never() -> None:
    assert path_of("..", "../x", "a/b") == "%2E%2E/..%2Fx/a%2Fb"
