"""The receiver's guide verifies and dedupes what the delivery stage sends."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from standardwebhooks import WebhookVerificationError
from support.outgoing import rendered

from streams.delivery.message.signing import headers, new_key_pair, new_secret

PAGE = (Path(__file__).parents[3] / "docs/deliveries.md").read_text()
BODY = rendered()
OLD, NEW, OTHER = (new_secret() for _ in range(3))
PRIVATE, PUBLIC = new_key_pair()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def of_the_page(name: str) -> Any:
    """The function of this name in the page's Python."""
    scope: dict[str, Any] = {}
    (text,) = (block for block in blocks("python") if f"def {name}(" in block)
    exec(text, scope)
    return scope[name]


def with_the_package(secret: str, sent: dict[str, str], body: bytes) -> bool:
    try:
        return bool(of_the_page("verified")(secret, sent, body) == json.loads(body))
    except WebhookVerificationError:
        return False


def in_a_shell(folder: Path, secret: str, sent: dict[str, str], body: bytes) -> bool:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    (folder / "body").write_bytes(body)
    named = {name.upper().replace("-", "_"): value for name, value in sent.items()}
    environment = {"PATH": os.environ["PATH"], "WEBHOOK_SECRET": secret, **named}
    (script,) = blocks("sh")
    done = subprocess.run(
        ["sh", "-c", script], cwd=folder, env=environment, capture_output=True, check=False
    )
    assert done.stderr == b""
    return done.returncode == 0


@pytest.mark.parametrize("way", ["standard library", "package", "shell"])
def test_each_way_takes_what_is_signed_under_either_secret_and_nothing_else(
    way: str, tmp_path: Path
) -> None:
    ways: dict[str, Callable[[str, dict[str, str], bytes], bool]] = {
        "standard library": of_the_page("verify"),
        "package": with_the_package,
        "shell": partial(in_a_shell, tmp_path),
    }
    verify, now = ways[way], int(time.time() * 1000)
    sent = headers("evt_1", now, BODY, [NEW.encode(), PRIVATE.encode(), OLD.encode()])
    assert verify(NEW, sent, BODY)
    assert verify(OLD, sent, BODY)
    assert not verify(OTHER, sent, BODY)
    assert not verify(NEW, sent, BODY + b" ")
    assert not verify(NEW, sent | {"webhook-id": "evt_2"}, BODY)
    for late in (-400_000, 400_000):  # the shell takes its time
        assert not verify(NEW, headers("evt_1", now + late, BODY, [NEW.encode()]), BODY)


def test_a_public_key_verifies_what_its_private_one_signs() -> None:
    verify, now = of_the_page("verify_v1a"), int(time.time() * 1000)
    sent = headers("evt_1", now, BODY, [NEW.encode(), PRIVATE.encode()])
    assert verify(PUBLIC, sent, BODY)
    assert not verify(new_key_pair()[1], sent, BODY)
    assert not verify(PUBLIC, sent, BODY + b" ")
    assert not verify(PUBLIC, headers("evt_1", now - 301_000, BODY, [PRIVATE.encode()]), BODY)


def test_a_message_that_comes_again_is_handled_once_and_one_that_failed_again() -> None:
    handle = of_the_page("handle_once")
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE seen (webhook_id TEXT PRIMARY KEY)")
    first, second = {"webhook-id": "evt_1"}, {"webhook-id": "evt_2"}
    with pytest.raises(sqlite3.OperationalError):  # the work fails: its table is missing
        handle(database, first, BODY)
    database.execute("CREATE TABLE work (body BLOB)")
    assert [handle(database, each, BODY) for each in (first, first, second)] == [True, False, True]
    assert database.execute("SELECT count(*) FROM work").fetchone() == (2,)


def test_the_document_on_the_page_is_the_one_that_is_sent() -> None:
    data = b'{"ticket": {"id": 42, "amount": 1.10}}'
    (shown,) = blocks("json")
    assert orjson.loads(shown) == orjson.loads(rendered(data=data))
    assert data.decode() in shown
