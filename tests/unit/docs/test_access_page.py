"""docs/access.md has the roles, permissions and calls of the code, and its commands run."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import pytest
import yaml
from support.access_desk import BOOTSTRAP_TOKEN, serving
from typer.testing import CliRunner, Result

from streams.access.failures import MOST, WITHIN_SECONDS
from streams.access.permissions import PERMISSIONS, ROLES
from streams.access.tokens import mint, parse
from streams.api.tokens.cli import tokens
from streams.api.tokens.token_request import DEFAULT_DAYS, MOST_DAYS
from streams.cli.main import application
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord
from streams.topology.load import load

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/access.md").read_text()


def table(heading: str) -> dict[str, str]:
    """The first table below a heading: the code of its first column, and its second one."""
    below = PAGE.split(f"\n## {heading}\n", 1)[1]
    rows = re.search(r"^\|.*?(?=^[^|]|\Z)", below, re.DOTALL | re.MULTILINE)
    assert rows is not None
    return dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", rows.group(), re.MULTILINE))


def test_the_page_names_each_permission_and_each_role() -> None:
    assert tuple(table("Permissions")) == PERMISSIONS
    roles = PAGE.split("\nA role is a named set of them:\n", 1)[1]
    shown = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", roles.split("\nThe topology", 1)[0], re.M))
    told = {name: set(re.findall(r"`([^`]+)`", text)) for name, text in shown.items()}
    assert shown["admin"] == "all"
    assert told | {"admin": set(PERMISSIONS)} == {name: set(given) for name, given in ROLES.items()}


def test_the_roles_that_it_declares_are_a_topology(tmp_path: Path) -> None:
    (declared,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "t.yaml").write_text(declared)
    found = load(tmp_path / "t.yaml").roles
    assert {name: list(given) for name, given in found.items()} == yaml.safe_load(declared)["roles"]


def test_the_figures_are_those_of_the_code() -> None:
    assert (DEFAULT_DAYS, f"{MOST_DAYS:,}", MOST, WITHIN_SECONDS) == (90, "3,650", 20, 60)
    for text in ("after 90 days", "3,650 at most", "20 wrong tokens in a minute"):
        assert text in PAGE


async def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", BOOTSTRAP_TOKEN)
    shown = re.findall(r"^    tidegate tokens (.*)$", PAGE, re.MULTILINE)
    assert [line.split()[0] for line in shown] == [
        *["create"] * 3,
        "list",
        "revoke",
        *["create"] * 3,
    ]
    async with serving(tmp_path) as api:
        key, acme = (
            tenant_key("acme", "tenant", ""),
            TenantRecord("acme", "tenant", "", False, "{}"),
        )
        api.desk.project([("tenants", key, TENANT.encode(acme))])
        url = str(api.client.make_url(""))

        def run(line: str) -> Result:
            return CliRunner().invoke(tokens, [*shlex.split(line), "--url", url])

        made = []
        for line in [each for each in shown if each.startswith("create")]:
            found = await asyncio.to_thread(run, line)
            assert found.exit_code == 0, found.output
            token = parse(found.stdout.splitlines()[-1])
            assert token is not None
            made.append(token)
        listed = await asyncio.to_thread(run, "list")
        assert all(token.id in listed.stdout for token in made)
        gone = await asyncio.to_thread(run, f"revoke {made[0].id}")
        assert gone.stdout.strip().endswith("is revoked")
        status, _ = await api.ask(made[0].text, "GET", "/v1/jobs")
        assert status == 401
        unknown = await asyncio.to_thread(run, "revoke none")
        assert (unknown.exit_code, "no token" in unknown.stderr) == (1, True)
        monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", mint().text)
        assert (await asyncio.to_thread(run, "list")).exit_code == 1


def test_the_group_is_a_command_of_tidegate() -> None:
    result = CliRunner().invoke(application(["tokens"]), ["tokens", "--help"])
    assert all(name in result.stdout for name in ("create", "list", "revoke"))
