"""Issuers are declared with references and known roles, and overlays merge them by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import ConfigError
from streams.topology.load import load

SOUND = "issuer: https://login.example.com, client_id: tidegate, roles: {ops: operator}"


def declared(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    return file


def test_an_issuer_is_read(tmp_path: Path) -> None:
    text = f"""
roles: {{support: [read]}}
issuers:
  - {{name: corp, {SOUND}, client_secret: "env:SECRET", tenants: {{ops: [acme, "*"]}}}}
  - name: guests
    issuer: http://127.0.0.1:9000/realms/guests
    client_id: t
    groups_claim: "https://example.com/groups"
    scopes: [openid, offline_access]
    roles: {{g: support}}
"""
    issuers = load(declared(tmp_path, text)).issuers
    assert list(issuers) == ["corp", "guests"]
    assert issuers["corp"].scopes == ("openid", "profile", "email")
    assert issuers["corp"].tenants == {"ops": ("acme", "*")}
    assert (issuers["guests"].client_secret, issuers["guests"].tenants) == (None, {})
    assert load().issuers == {}


@pytest.mark.parametrize(
    ("issuer", "place", "why"),
    [
        (SOUND.replace("https:", "http:"), ".issuer", "no https URL"),
        (SOUND.replace("https://login.example.com", "login"), ".issuer", "no https URL"),
        (SOUND.replace("https://", "https://a:b@"), ".issuer", "no https URL"),
        (f"{SOUND}, client_secret: hunter2hunter2", ".client_secret", "no reference"),
        (f"{SOUND}, client_secret: 'file:secret'", ".client_secret", "no reference"),
        (f"{SOUND}, scopes: [profile]", ".scopes", "lacks openid"),
        (f"{SOUND}, scopes: ['openid profile']", ".scopes", "is no scope"),
        (f"{SOUND}, tenants: {{ops: []}}", ".tenants.ops", "tenants.ops"),
        (SOUND.replace("operator", "operater"), ".roles.ops", "operater is no role"),
        (SOUND.replace("{ops: operator}", "{}"), ".roles", "gives nobody a role"),
        (f"{SOUND}, secret: x", ".secret", "secret"),
    ],
)
def test_a_wrong_issuer_is_refused_at_its_line(
    tmp_path: Path, issuer: str, place: str, why: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load(declared(tmp_path, f"issuers:\n  - {{name: corp, {issuer}}}\n"))
    assert f":2: issuers[corp]{place}" in str(error.value)
    assert why in str(error.value)
    assert "hunter2" not in str(error.value)
