"""Credentials are references, redaction's rules can be used, and overlays merge by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import ConfigError
from streams.topology.load import load


def declared(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    return file


def test_credentials_and_redaction_are_read(tmp_path: Path) -> None:
    text = """
credentials:
  - {name: stripe, provider: http, reference: "secret/data/{tenant}/stripe#api_key"}
  - {name: smtp, provider: file, reference: /run/secrets/smtp, tenants: [acme], job_types: [mail]}
  - {name: ci, provider: environment, reference: CI_TOKEN}
  - {name: own, provider: bank-vault, reference: "anything at all"}
redaction: {fields: ["$..iban"], patterns: ['CASE-\\d+'], presets: [card, mail, token]}
"""
    topology = load(declared(tmp_path, text))
    assert list(topology.credentials) == ["stripe", "smtp", "ci", "own"]
    stripe, smtp = topology.credentials["stripe"], topology.credentials["smtp"]
    assert stripe.reference_of("acme") == "secret/data/acme/stripe#api_key"
    assert stripe.is_for("any", "thing")
    assert smtp.is_for("acme", "mail")
    assert not smtp.is_for("acme", "refund")
    assert not smtp.is_for("beta", "mail")
    assert topology.redaction.presets == ("card", "mail", "token")


@pytest.mark.parametrize(
    ("credential", "why"),
    [
        ("provider: environment, reference: a-b", "the name of an environment variable"),
        ("provider: file, reference: secrets/stripe", "an absolute path"),
        ("provider: http, reference: '/secret/x'", "a path in the store"),
        ("provider: http, reference: 'secret/x?y=1'", "a path in the store"),
        (
            "provider: environment, reference: sk_" + "live_51Habcdefgh",
            "looks like a secret",
        ),
        ("provider: environment, reference: A, tenants: []", "tenants"),
        ("provider: environment, reference: A, value: x", "value"),
        ("provider: environment, reference: ''", "reference"),
    ],
)
def test_a_wrong_credential_is_refused_at_its_line(
    tmp_path: Path, credential: str, why: str
) -> None:
    text = f"credentials:\n  - {{name: stripe, {credential}}}\n"
    with pytest.raises(ConfigError, match=why) as error:
        load(declared(tmp_path, text))
    assert ":2: credentials[stripe]" in str(error.value)
    assert "51Habcdefgh" not in str(error.value)


@pytest.mark.parametrize(
    ("rules", "place", "why"),
    [
        ("fields: [customer]", "redaction.fields[0]", "'customer' is not a path"),
        ("patterns: ['(']", "redaction.patterns[0]", "no regular expression"),
        ("patterns: [ok, '.*']", "redaction.patterns[1]", "make it narrower"),
        ("presets: [card, cards]", "redaction.presets[1]", "use one of card, mail, token"),
        ("field: []", "redaction.field", "field"),
    ],
)
def test_a_wrong_rule_is_refused_at_its_line(
    tmp_path: Path, rules: str, place: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        load(declared(tmp_path, f"redaction: {{{rules}}}\n"))
    assert f":1: {place}" in str(error.value)
