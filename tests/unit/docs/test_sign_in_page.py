"""docs/sign-in.md declares an issuer that loads, and lists each reason for a refusal."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from streams.access.failures import MOST, WITHIN_SECONDS
from streams.access.oidc.answers import MOST_BYTES
from streams.access.oidc.answers import WITHIN_SECONDS as ANSWERED_WITHIN
from streams.access.oidc.authorization import WITHIN_MS
from streams.access.oidc.id_token import CLOCK_SKEW_SECONDS
from streams.access.oidc.kept_answer import AGAIN_SECONDS, LIFETIME_SECONDS
from streams.access.session import ABSOLUTE_MS, IDLE_MS, RECHECK_BY_MS, RECHECK_FROM_MS
from streams.topology.issuers import IssuerDeclaration
from streams.topology.load import load

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/sign-in.md").read_text()
_MINUTE_MS = 60_000


def test_the_declaration_loads(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    assert load(file).issuers["corp"].roles["platform"] == "admin"


def test_each_key_of_a_declaration_is_listed() -> None:
    table = PAGE.partition("| key | means |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert listed == [field.name for field in fields(IssuerDeclaration)]


def test_each_reason_is_listed() -> None:
    """Those of a sign-in; the end of a session that has no refresh token is a call's 401."""
    sources = [
        *(ROOT / "streams/access").rglob("*.py"),
        *(ROOT / "streams/api/session").glob("*.py"),
    ]
    code = "".join(path.read_text() for path in sources)
    named = set(re.findall(r'(?:SignInRefused|_refused)\(\s*"([a-z-]+)"', code))
    table = PAGE.partition("| `reason` | what it means |")[2].partition("\n\n")[0]
    rows = (row.split("|")[1] for row in table.strip().splitlines()[1:])
    listed = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    assert listed == named - {"session-over"}


def test_the_times_are_those_of_the_code() -> None:
    for text, value, expected in (
        ("after 30 minutes", IDLE_MS, 30 * _MINUTE_MS),
        ("12 hours after the sign-in", ABSOLUTE_MS, 720 * _MINUTE_MS),
        ("every 10 to 15 minutes", (RECHECK_FROM_MS, RECHECK_BY_MS), (600_000, 900_000)),
        ("after more than 10 minutes", WITHIN_MS, 10 * _MINUTE_MS),
        ("more than a minute apart", CLOCK_SKEW_SECONDS, 60),
        ("After 20 failures in a minute", (MOST, WITHIN_SECONDS), (20, 60)),
        ("gets 5 seconds", ANSWERED_WITHIN, 5),
        ("at most 256 KiB", MOST_BYTES, 256 * 1024),
        ("kept for ten minutes", LIFETIME_SECONDS, 600),
        ("at most every ten seconds", AGAIN_SECONDS, 10),
    ):
        assert text in PAGE.replace("\n", " "), text
        assert value == expected, text
