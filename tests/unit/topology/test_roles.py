"""Roles of the topology are named sets of known permissions, and replace no built-in role."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import ConfigError
from streams.topology.load import load


def declared(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    return file


def test_a_role_is_read(tmp_path: Path) -> None:
    topology = load(declared(tmp_path, "roles:\n  support: [read, operate]\n"))
    assert topology.roles == {"support": ("read", "operate")}
    assert load().roles == {}


@pytest.mark.parametrize(
    ("roles", "why"),
    [
        ("admin: [read]", "admin is a role already; choose another name"),
        ("custom: [read]", "custom is a role already; choose another name"),
        ("support: []", "support has no permission"),
        ("support: [fly]", "roles.support"),
        ("support: read", "roles.support"),
    ],
)
def test_a_role_that_cannot_be_is_refused_with_its_place(
    tmp_path: Path, roles: str, why: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load(declared(tmp_path, f"roles:\n  {roles}\n"))
    assert ":2: roles." in str(error.value)
    assert why in str(error.value)
