"""The program of a handler's process. It imports what the worker has, from where the worker has it.

The worker's own search path comes in the first message: an application's folder stands first in it,
and a module there, such as its `random.py`, must not take the place of one that Python needs to
start. In the environment, the path would also reach every Python program that a handler starts.
"""

from __future__ import annotations

import importlib.util
import sys
from multiprocessing.connection import Connection
from pathlib import Path

_OURS = Path(__file__).resolve().parents[2] / "__init__.py"


def start(connection: Connection, life: int) -> None:
    """Import the product, and serve the worker; `life` is the read end of a pipe of its own."""
    path: list[str] = connection.recv()
    sys.path += [each for each in path if each not in sys.path]
    _import_package("streams", _OURS)
    from streams.worker.blocking.child import serve

    sys.path[:] = path
    serve(connection, life)


def _import_package(name: str, file: Path) -> None:
    """Import a package from its file, wherever else one of its name lies."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    start(Connection(int(sys.argv[1])), int(sys.argv[2]))
