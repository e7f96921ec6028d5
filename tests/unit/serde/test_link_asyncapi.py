"""`tidegate schemas link`: the official parser takes it, and it has each message and command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from support.asyncapi_parser import parsed
from typer.testing import CliRunner

from streams.cli.schemas import schemas
from streams.serde.link.commands import KINDS
from streams.serde.link.messages import FromOwner, FromWorker


def document(*words: str) -> dict[str, Any]:
    told = CliRunner().invoke(schemas, ["link", *words])
    assert told.exit_code == 0, told.output
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def test_each_message_of_either_side_is_in_its_frame() -> None:
    known = document()["components"]["schemas"]
    for side, union in (("from_worker", FromWorker), ("from_owner", FromOwner)):
        named = {each["$ref"].rpartition("/")[2] for each in known[side]["oneOf"]}
        assert named == {each.__name__ for each in get_args(union)}
        tags = {known[name]["properties"]["type"]["enum"][0] for name in named}
        assert tags == {each.__struct_config__.tag for each in get_args(union)}


def test_each_command_has_its_body_and_says_what_it_means() -> None:
    known = document()["components"]["schemas"]
    bodies = {
        each["properties"]["kind"]["const"]: each["properties"]["body"]["$ref"].rpartition("/")[2]
        for each in known["Order"]["oneOf"]
    }
    assert bodies == {kind: body.__name__ for kind, body in KINDS.items()}
    assert known["Claim"]["description"] == "may I begin this side effect?"
    assert "worker_id" not in known["Claim"]["properties"]


def test_the_server_is_the_one_that_is_named() -> None:
    server = document("--host", "owner.example:443", "--tls")["servers"]["owner"]
    assert (server["host"], server["protocol"]) == ("owner.example:443", "wss")


def test_every_reference_leads_somewhere() -> None:
    told = document()
    for line in msgspec.json.format(msgspec.json.encode(told)).decode().splitlines():
        _, _, ref = line.partition('"$ref": "#/')
        found: Any = told
        for name in ref.rstrip('",').split("/") if ref else ():
            found = found[name]


@pytest.mark.long
def test_the_official_parser_accepts_the_document(tmp_path: Path) -> None:
    found = parsed(document(), tmp_path)
    assert found.errors == []
    assert found.channels == ["/v1/link"]
