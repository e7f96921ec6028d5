"""The first minutes of a user who has the wheel and no checkout: new, pytest, dev, one event."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conditions import eventually
from support.dev_process import Dev, curl, get, start, stop

from streams.dev.welcome import signed_delivery

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def tidegate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment with the wheel; its dependencies are those of this run."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            str(ROOT),
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            str(folder),
        ],
        folder,
    )
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv/bin/python"
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            str(wheel),
        ],
        folder,
    )
    (site,) = folder.glob("venv/lib/python3*/site-packages")
    (site / "dependencies.pth").write_text("\n".join(_dependencies()))
    return python.with_name("tidegate")


def _dependencies() -> Iterator[str]:
    """The folders of installed packages from which this run imports, without the checkout."""
    for path in map(Path, sys.path):
        ours = path.resolve() == ROOT or path.resolve().is_relative_to(ROOT / "tests")
        if path.is_absolute() and path.is_dir() and not ours:
            yield str(path)


def _run(command: list[str], folder: Path) -> str:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_a_new_application_is_tested_run_and_answers_a_ticket(
    tidegate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _run([str(tidegate), "new", "helpdesk", "--json"], tmp_path)
    project = tmp_path / "helpdesk"
    assert "app.py" in json.loads(made)["files"]

    python = str(tidegate.with_name("python"))
    assert " passed" in _run([python, "-m", "pytest", "-p", "no:cacheprovider"], project)
    where = _run([python, "-c", "import streams; print(streams.__file__)"], project)
    assert not Path(where.strip()).is_relative_to(ROOT), "the wheel runs, not the checkout"

    monkeypatch.delenv("PYTHONPATH", raising=False)
    dev = start(
        project / ".tidegate",
        "--app",
        "app:app",
        "--topology",
        "topology.yaml",
        "--reload",
        command=[str(tidegate)],
        folder=project,
    )
    try:
        _answers_a_ticket(dev)
        _runs_changed_code(dev, project / "app.py")
    finally:
        code = stop(dev)
    assert code == 0


def _answers_a_ticket(dev: Dev) -> None:
    sent = signed_delivery(dev.url, dev.data_dir)
    status, text = get(sent.url, dict(sent.headers), sent.body)
    job_id = json.loads(text)["job_id"]
    show = f"curl {dev.url}/v1/jobs/{job_id} -H 'Authorization: Bearer {dev.token}'"
    eventually(lambda: curl(show)[1].get("status") == "succeeded", what="the job succeeded")
    assert status == 202
    dev.told(f"succeeded  {job_id} answer_ticket in ")


def _runs_changed_code(dev: Dev, app: Path) -> None:
    """A change that cannot be imported is told; the next one restarts the worker."""
    before, sound = dev.pids["worker-0"], app.read_text()
    app.write_text(f"{sound}\nbroken = [][0]\n")
    dev.told("the workers keep the code from before")
    dev.told("IndexError: list index out of range")
    assert dev.pids["worker-0"] == before
    app.write_text(f"{sound}\nmended = True\n")
    dev.told("worker-0 restarted in ")
    assert dev.pids["worker-0"] != before
