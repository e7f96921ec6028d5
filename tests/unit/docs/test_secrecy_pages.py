"""docs/credentials.md and docs/redaction.md show files that run, and list what is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from streams import App, Context
from streams.redaction.presets import PRESETS
from streams.settings import Settings
from streams.testing import Bench
from streams.topology.load import load
from streams.worker.credentials.shipped import shipped
from streams.worker.http_answers import _REFUSED
from streams.worker.http_session import Http

ROOT = Path(__file__).parents[3]
CREDENTIALS = (ROOT / "docs/credentials.md").read_text()
REDACTION = (ROOT / "docs/redaction.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "folder", "name", "more"),
    [
        (CREDENTIALS, "credentials_page", "charges", ["bank_vault.py"]),
        (REDACTION, "redaction_page", "replies", []),
    ],
)
def test_a_page_shows_the_application_and_its_tests_as_they_run(
    page: str, folder: str, name: str, more: list[str]
) -> None:
    shown = Path(__file__).parent / folder
    assert blocks(page, "python") == [
        (shown / file).read_text() for file in (f"{name}.py", f"test_{name}.py", *more)
    ]
    assert blocks(page, "yaml") == [(shown / f"{name}.yaml").read_text()]
    assert load(shown / f"{name}.yaml")


def test_each_shipped_provider_and_preset_has_a_row() -> None:
    settings = Settings(credentials_url="http://vault", credentials_token_file=Path("token"))
    rows = re.findall(r"^\| `(\w+)` \|", CREDENTIALS, re.MULTILINE)
    assert set(shipped(settings)) <= set(rows)
    assert set(PRESETS) <= set(re.findall(r"^\| `(\w+)` \|", REDACTION, re.MULTILINE))


def test_the_requests_and_the_refused_statuses_are_listed() -> None:
    calls = {name for name in vars(Http) if not name.startswith("_")}
    assert all(f"`{call}`" in CREDENTIALS for call in calls)
    assert f"... of {', '.join(map(str, sorted(_REFUSED)))} |" in CREDENTIALS


def test_the_provider_of_the_page_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent / "credentials_page")
    vault = importlib.import_module("bank_vault").BankVault({"acme/key": "value-of-the-bank"})

    async def asks(ctx: Context) -> int:
        return len(await ctx.credentials("bank"))

    app = App("bank")
    app.job("job")(asks)
    app.provider("bank-vault", vault)
    file = tmp_path / "bank.yaml"
    file.write_text(
        "credentials: [{name: bank, provider: bank-vault, reference: key}]\n"
        "routes: [{match: {source: '*', event_type: '*'}, job: job}]\n"
    )
    with Bench(app, topology=file) as bench:
        assert bench.submit("job").run().result == len("value-of-the-bank")
        other = bench.submit("job", tenant="beta").run()
        assert (other.status, str(other.error)[-15:]) == ("failed", "key was revoked")
