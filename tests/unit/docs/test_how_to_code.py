"""The examples of docs/how-to run as they stand there, and what those pages name is there."""

from __future__ import annotations

import hmac
import importlib.util
import re
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from support import page_application
from support.console_page import File, steps

from ingress.samples import sample
from ingress.schemes import SignedRequest, Verified, sign, verify
from ingress.schemes.normalize import Normalizer
from ingress.schemes.options import parse
from streams.testing import Bench
from streams.topology import load as load_module
from streams.topology.load import load
from streams.worker.app_loader import load_app

ROOT = Path(__file__).parents[3]
HOW_TO = ROOT / "docs/how-to"
PAGES = [*sorted(HOW_TO.glob("*.md")), *sorted((ROOT / "docs/decisions").glob("*.md"))]


def blocks(page: str, language: str) -> list[str]:
    """The texts of a page's code blocks of one language."""
    pieces = (HOW_TO / page).read_text().split(f"```{language}\n")[1:]
    return [piece.split("```\n", 1)[0] for piece in pieces]


def written(page: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A page's file as the module that its path names."""
    (text,) = (s.text for s in steps((HOW_TO / page).read_text()) if s == File(name, s.text))
    path = folder / Path(name).name
    path.write_text(text)
    full = name.removesuffix(".py").replace("/", ".")
    spec = importlib.util.spec_from_file_location(full, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, full, module)
    package, _, last = full.rpartition(".")
    if package in sys.modules:
        monkeypatch.setattr(sys.modules[package], last, module, raising=False)
    spec.loader.exec_module(module)
    return module


def test_the_stage_counts_as_its_test_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, overlay = "add-a-stage.md", tmp_path / "tally.yaml"
    overlay.write_text(blocks(page, "yaml")[0])
    monkeypatch.setattr(load_module, "load", partial(load, overlay))
    written(page, "streams/tally.py", tmp_path, monkeypatch)
    test = written(page, "tests/stages/test_tally.py", tmp_path, monkeypatch)
    test.test_each_type_of_a_tenant_has_its_own_count()


def test_the_scheme_takes_what_its_vendor_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, body = "add-a-signing-scheme.md", b'{"id": "e1"}'
    scheme = written(page, "ingress/schemes/acme.py", tmp_path, monkeypatch).SCHEME
    headers = {"X-Acme-Signature": "v1=" + hmac.new(b"s3cret", body, "sha256").hexdigest()}
    verify = scheme.verifier(parse(scheme.options, {}))
    unsigned = SignedRequest({}, body, "", "POST", 0.0)
    assert verify((b"s3cret",), replace(unsigned, headers=headers)) == Verified(0, None)
    assert scheme.signer(parse(scheme.options, {}))(b"s3cret", unsigned).headers == headers


def test_the_limits_are_enforced_ones(tmp_path: Path) -> None:
    overlay = tmp_path / "limits.yaml"
    overlay.write_text(blocks("add-a-limit.md", "yaml")[0])
    assert [limit.scope for limit in load(overlay).limits] == [
        "tenant",
        "job_type",
        "global",
        "tool",
    ]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The application of the page about two vendors."""
    page = (HOW_TO / "serve-two-vendors.md").read_text()
    return page_application.written(page, tmp_path / "shop")


def test_the_tests_of_the_application_of_two_vendors_pass(shop: Path) -> None:
    assert "2 passed" in page_application.own_tests(shop)


def test_each_sample_that_the_page_sends_is_signed_routed_and_its_job_succeeds(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (HOW_TO / "serve-two-vendors.md").read_text()
    schemes = dict(re.findall(r"sources set (\S+) --tenant acme --scheme (\S+)", page))
    sent = re.findall(r"send --tenant acme --source (\S+) --sample (\S+)", page)
    page_application.enter(shop, monkeypatch)
    done = []
    with Bench(load_app("app:app"), topology=shop / "topology.yaml") as bench:
        for source, name in sent:
            scheme, now = schemes[source], time.time()
            made = sample(scheme, name, now)
            unsigned = SignedRequest(made.headers, made.body, "https://t/", "POST", now)
            signed = sign(scheme, b"s3cret", unsigned)
            verified = verify(scheme, [b"s3cret"], signed.headers, signed.body, now=now)
            fields = Normalizer(scheme, {}).normalize(dict(signed.headers), signed.body, verified)
            job = bench.event(fields.event_type, signed.body, source=source, key=fields.dedup_key)
            done.append((job.run().status, job.result))
    monkeypatch.delitem(sys.modules, "app")
    assert done == [
        ("succeeded", {"sent_to": "ada@example.com"}),
        ("succeeded", {"commented_on": "ada/printer#12"}),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_files_and_constants_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    made = {step.name for step in steps(text) if isinstance(step, File)}
    paths = set(re.findall(r"`((?:docs|ingress|streams|tests)/[a-z_/.-]+)`", text))
    assert {path for path in paths - made if not (ROOT / path).exists()} == set()
    code = "\n".join(
        path.read_text()
        for top in ("ingress", "streams", "tests")
        for path in (ROOT / top).rglob("*.py")
    )
    names = set(re.findall(r"`(_?[A-Z][A-Z_]{4,})`", text))
    assert {name for name in names if name not in code} == set()
