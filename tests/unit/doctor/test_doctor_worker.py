"""`tidegate doctor --stage worker` dials the owners of partitions, and needs no Kafka."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.certificates import self_signed
from support.link_services import InMemory, Tokens, serving
from support.linked_workers import TERMS, Partitions
from typer.testing import CliRunner

from streams.cli.main import application
from streams.link.grant import Grant
from streams.link.listening import Listening

TOKEN, NARROW = "all-all-all-all-all", "narrow-narrow-narrow"
WIDTH = TERMS.partitions
APP = """
from streams import App
app = App("shop")

@app.job("mail")
async def mail(ctx): ...

@app.job("refund")
async def refund(ctx): ...
"""


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logs of the owners, which are in this process, stay out of the doctor's output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_LINK_TOKEN", TOKEN)
    (tmp_path / "topology.yaml").write_text("pools:\n  - {name: gpu}\n")
    monkeypatch.setenv("TIDEGATE_TOPOLOGY", "topology.yaml")
    with capture_logs():
        yield


@pytest.fixture
def app(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "doctored.py").write_text(APP)
    yield "doctored:app"
    sys.modules.pop("doctored", None)
    sys.path[:] = [each for each in sys.path if each != str(tmp_path)]


@pytest.fixture
def services() -> InMemory:
    types, pools = ("mail",), ("default",)
    return InMemory(Tokens(**{TOKEN: Grant("", "all"), NARROW: Grant("t", "n", pools, types)}))


def look(*links: str, words: Sequence[str] = (), **env: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and by status the texts and remedies of all findings."""
    args = ["doctor", "--stage", "worker", "--json", *words]
    given = {**({"TIDEGATE_LINK": ",".join(links)} if links else {}), **env}
    result = CliRunner().invoke(application(args), args, env=given)
    found: dict[str, Any] = {}
    for each in json.loads(result.stdout)["findings"]:
        text = f"{each['check']}: {each['text']} -> {each['remedy']}"
        found.setdefault(each["status"], []).append(text)
    assert TOKEN not in result.stdout
    return result.exit_code, found


def one(found: dict[str, Any], status: str = "fail") -> str:
    (text,) = found[status]
    return str(text)


def test_a_worker_that_owners_take_has_nothing_to_mend(services: InMemory, app: str) -> None:
    half = WIDTH // 2
    first, second = Partitions(*range(half)), Partitions(*range(half, WIDTH))
    with serving(first.owner, services) as one, serving(second.owner, services) as two:
        links = f"ws://127.0.0.1:{one.port}", f"ws://127.0.0.1:{two.port}"
        code, found = look(*links, words=("--app", app))
    assert (code, list(found)) == (0, ["ok"])
    assert any("2 job types: mail, refund" in text for text in found["ok"])


def test_the_doctor_becomes_no_worker(services: InMemory) -> None:
    owner = Partitions(*range(WIDTH))
    with serving(owner.owner, services) as server:
        look(f"ws://127.0.0.1:{server.port}")
    owner.taken()
    assert owner.roster.calls == []


def test_partitions_without_an_owner_are_named(services: InMemory) -> None:
    with serving(Partitions(*range(WIDTH - 1)).owner, services) as server:
        code, found = look(f"ws://127.0.0.1:{server.port}")
    assert code == 3
    assert f"1 of {WIDTH} partitions have no owner among 1: {WIDTH - 1}" in one(found)
    assert "TIDEGATE_LINK" in one(found)


def test_an_owner_that_does_not_listen_is_named_beside_one_that_does(services: InMemory) -> None:
    with socket.socket() as closed, serving(Partitions(*range(WIDTH)).owner, services) as server:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        code, found = look(f"ws://127.0.0.1:{server.port}", f"ws://127.0.0.1:{port}")
    assert code == 3
    assert f"owners: 127.0.0.1:{port}: " in one(found)


def test_nothing_reached_has_an_exit_code_of_its_own() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        code, _ = look(f"ws://127.0.0.1:{closed.getsockname()[1]}")
    assert code == 1


def test_a_name_without_an_address_is_named(services: InMemory) -> None:
    with serving(Partitions(*range(WIDTH)).owner, services) as server:
        code, found = look(f"ws://127.0.0.1:{server.port}", "ws://owner.invalid:8090")
    assert code == 3
    assert "names: owner.invalid stands for no address" in one(found)


@pytest.mark.parametrize(
    ("words", "token", "says"),
    [
        ((), "wrong-wrong-wrong-wrong", "token: 127.0.0.1:"),
        (("--pool", "gpu"), NARROW, "the token does not allow the pool gpu"),
        (("--app", "doctored:app"), NARROW, "the token does not allow the types refund"),
    ],
)
def test_what_the_token_lacks_is_named(
    services: InMemory, app: str, words: tuple[str, ...], token: str, says: str
) -> None:
    with serving(Partitions(*range(WIDTH)).owner, services) as server:
        link = f"ws://127.0.0.1:{server.port}"
        code, found = look(link, words=words, TIDEGATE_LINK_TOKEN=token)
    assert code == 3
    assert says in one(found)
    assert "--role worker" in one(found)


@pytest.mark.parametrize(
    ("name", "days", "trusts", "says"),
    [
        ("localhost", -1, True, "it ended"),
        ("owner.example", 90, True, "it is for owner.example"),
        ("localhost", 90, False, "set TIDEGATE_LINK_CA"),
    ],
)
def test_a_certificate_that_is_not_believed_is_named_with_its_fault(
    services: InMemory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    days: int,
    trusts: bool,
    says: str,
) -> None:
    pem = self_signed(tmp_path, name, days=days)
    place = Listening("127.0.0.1", 0, pem)
    monkeypatch.setenv("TIDEGATE_LINK_CA", str(pem)) if trusts else None
    with serving(Partitions(*range(WIDTH)).owner, services, place) as server:
        code, found = look(f"wss://localhost:{server.port}")
    assert code == 1
    (text,) = (text for text in found["fail"] if text.startswith("TLS: "))
    assert says in text


def test_a_certificate_that_ends_soon_is_a_warning(services: InMemory, tmp_path: Path) -> None:
    pem = self_signed(tmp_path, "localhost", days=3)
    with serving(Partitions(*range(WIDTH)).owner, services, Listening("127.0.0.1", 0, pem)) as it:
        code, found = look(f"wss://localhost:{it.port}", TIDEGATE_LINK_CA=str(pem))
    assert code == 0
    assert any("TLS: the certificate of localhost" in text for text in found["warn"])


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ("TIDEGATE_LINK=", "set TIDEGATE_LINK"),
        ("TIDEGATE_LINK=owner", "'owner' is no address"),
        ("TIDEGATE_LINK_TOKEN=short", "fewer than 16 characters"),
        ("TIDEGATE_LINK_TOKEN_FILE=none", "are both set"),
        ("TIDEGATE_LINK_CA=none.pem", "none.pem"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, env: str, says: str
) -> None:
    monkeypatch.setenv("TIDEGATE_LINK", "ws://127.0.0.1:1")
    monkeypatch.setenv(*env.split("="))
    code, found = look()
    assert code == 1
    assert any(says in text for text in found["fail"])


def test_a_server_that_is_no_owner_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code, found = look(f"ws://127.0.0.1:{silent.getsockname()[1]}")
    assert code == 1
    assert "nothing answers within" in one(found)


def test_the_addresses_and_the_token_of_a_dev_are_found(
    services: InMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_LINK_TOKEN")
    folder = tmp_path / ".tidegate"
    (folder / "keys").mkdir(parents=True)
    (folder / "keys" / "link.token").write_text(TOKEN)
    with serving(Partitions(*range(WIDTH)).owner, services) as server:
        state = {"link": [f"ws://127.0.0.1:{server.port}"]}
        (folder / "dev.json").write_text(json.dumps(state))
        code, _ = look(words=("--data-dir", str(folder)))
    assert code == 0
