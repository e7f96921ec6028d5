"""Secrets by reference: resolved at the ingress, closed while they lead nowhere, said once."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from support.collection import collect
from support.webhooks import VAULT, source

from ingress.tenants.references import UNRESOLVED, References
from ingress.tenants.sources import SourceTable
from streams.errors import SecretUnresolved
from streams.tenants.secret_reference import resolve
from streams.tenants.source_keys import Reference


@pytest.fixture
def references() -> References:
    return References()


def unresolved() -> float:
    return UNRESOLVED._value.get()  # type: ignore[no-any-return]


def table_with(references: References, *secrets: bytes | Reference) -> SourceTable:
    table = SourceTable(VAULT, references)
    table.apply(*source("acme", "shop", "hmac-sha256", secrets))
    return table


def secrets_of(table: SourceTable) -> dict[int, bytes]:
    found = table.lookup("acme", "shop")
    assert found is not None
    return found.secrets(0)


def test_an_environment_s_value_is_the_secret_as_it_stands(
    references: References, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hunter2 \n")
    assert secrets_of(table_with(references, Reference("env:HOOK_SECRET"))) == {0: b"hunter2 \n"}


def test_a_file_that_changes_is_the_new_secret_at_the_next_look(
    references: References, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"first\r\n")
    table = table_with(references, Reference(f"file:{file}"))
    assert secrets_of(table) == {0: b"first"}
    mounted = tmp_path / "next"
    mounted.write_bytes(b"second")
    mounted.rename(file)
    references.refresh()
    assert secrets_of(table) == {0: b"second"}


def test_a_reference_that_leads_nowhere_closes_the_source_until_it_leads_somewhere(
    references: References, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    with structlog.testing.capture_logs() as lines:
        table = table_with(references, Reference(f"file:{file}"))
        references.refresh()
        assert (secrets_of(table), unresolved()) == ({}, 1)
        file.write_bytes(b"hunter2")
        references.refresh()
        assert (secrets_of(table), unresolved()) == ({0: b"hunter2"}, 0)
        references.refresh()
        file.unlink()
        references.refresh()
        assert (secrets_of(table), unresolved()) == ({}, 1)
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("a source's secret cannot be resolved", "error"),
        ("a source's secret can be resolved again", "info"),
        ("a source's secret cannot be resolved", "error"),
    ]
    assert (lines[0]["tenant_id"], lines[0]["source"]) == ("acme", "shop")
    assert str(file) in lines[0]["reason"]
    assert "hunter2" not in str(lines)


def test_an_old_secret_goes_on_and_stays_old_while_the_new_one_is_not_mounted_yet(
    references: References, tmp_path: Path
) -> None:
    table = table_with(references, Reference(f"file:{tmp_path / 'new'}"), b"old")
    assert secrets_of(table) == {1: b"old"}


def test_what_no_source_refers_to_any_more_is_not_looked_at(
    references: References, tmp_path: Path
) -> None:
    table = table_with(references, Reference(f"file:{tmp_path / 'gone'}"))
    references.refresh()
    assert unresolved() == 1
    table.apply(*source("acme", "shop", "hmac-sha256", [b"given"]))
    collect()
    references.refresh()
    assert unresolved() == 0


@pytest.mark.parametrize(
    ("reference", "fault"),
    [
        ("env:TIDEGATE_NOT_SET", "environment has no TIDEGATE_NOT_SET"),
        ("env:EMPTY_SECRET", "empty"),
        ("file:/no/such/file", "no file of at most 65536 bytes at /no/such/file"),
        ("file:/dev/zero", "no file of at most"),
        ("file:/", "no file of at most"),
    ],
)
def test_what_leads_to_no_secret_says_why(
    monkeypatch: pytest.MonkeyPatch, reference: str, fault: str
) -> None:
    monkeypatch.setenv("EMPTY_SECRET", "")
    with pytest.raises(SecretUnresolved, match=fault):
        resolve(reference)


def test_a_file_larger_than_any_secret_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"x" * (64 * 1024 + 1))
    with pytest.raises(SecretUnresolved, match="no file of at most"):
        resolve(f"file:{file}")


def test_a_reference_to_what_its_scheme_cannot_use_does_not_stand_before_a_secret_that_holds(
    tmp_path: Path,
) -> None:
    file = tmp_path / "secret"
    file.write_text("whsec_not base64!")
    references = References()
    with structlog.testing.capture_logs() as lines:
        named = references.named(f"file:{file}", "standard-webhooks", "acme", "shop")
    assert named.secret is None
    assert "whsec_not" not in str(lines)
    file.write_text("whsec_c3ZpeA==")
    references.refresh()
    assert named.secret == b"whsec_c3ZpeA=="


def test_a_file_that_nothing_can_read_closes_its_source_and_no_other(
    references: References, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd, plain = tmp_path / "odd", tmp_path / "plain"
    odd.write_bytes(b"first")
    plain.write_bytes(b"first")
    tables = [table_with(references, Reference(f"file:{file}")) for file in (odd, plain)]
    odd.write_bytes(b"hunter2")
    plain.write_bytes(b"second")

    def check(scheme: str, secret: bytes) -> None:
        if secret == b"hunter2":
            raise RuntimeError(f"a library's own fault over {secret!r}")

    monkeypatch.setattr("ingress.tenants.references.check_secret", check)
    with structlog.testing.capture_logs() as told:
        references.refresh()
    assert [secrets_of(table) for table in tables] == [{}, {0: b"second"}]
    assert "hunter2" not in str(told)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The references that were resolved, in order."""
    found: list[str] = []

    def noted(reference: str) -> bytes:
        found.append(reference)
        return resolve(reference)

    monkeypatch.setattr("ingress.tenants.references.resolve", noted)
    return found


def test_a_file_is_read_again_only_when_it_changed(
    references: References, tmp_path: Path, looks: list[str]
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"first")
    table = table_with(references, Reference(f"file:{file}"))
    references.refresh()
    assert len(looks) == 1
    file.write_bytes(b"the second")
    for _ in range(2):
        references.refresh()
        assert secrets_of(table) == {0: b"the second"}
    assert len(looks) == 2


def test_a_file_that_could_not_be_used_is_read_again_unchanged(
    references: References, tmp_path: Path, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"secret")
    with monkeypatch.context() as broken:
        broken.setattr(Path, "read_bytes", lambda _: b"")
        table = table_with(references, Reference(f"file:{file}"))
    assert secrets_of(table) == {}
    references.refresh()
    assert secrets_of(table) == {0: b"secret"}
    assert len(looks) == 2


def test_a_secret_that_kubernetes_mounts_is_read_again_when_its_link_is_switched(
    references: References, tmp_path: Path, looks: list[str]
) -> None:
    """The file is a link through `..data`, which is replaced by one to another directory."""
    for version, secret in (("..1", b"first"), ("..2", b"other")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "secret").write_bytes(secret)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "secret").symlink_to("..data/secret")
    table = table_with(references, Reference(f"file:{tmp_path / 'secret'}"))
    references.refresh()
    assert (secrets_of(table), len(looks)) == ({0: b"first"}, 1)
    (tmp_path / "..next").symlink_to("..2")
    (tmp_path / "..next").rename(tmp_path / "..data")
    references.refresh()
    assert (secrets_of(table), len(looks)) == ({0: b"other"}, 2)


def test_an_environment_s_value_is_looked_up_once(
    references: References, monkeypatch: pytest.MonkeyPatch, looks: list[str]
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hunter2")
    names = "HOOK_SECRET", "TIDEGATE_NOT_SET"
    tables = [table_with(references, Reference(f"env:{name}")) for name in names]
    references.refresh()
    assert [secrets_of(table) for table in tables] == [{0: b"hunter2"}, {}]
    assert unresolved() == 1
    assert len(looks) == 2
