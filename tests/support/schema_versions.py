"""A second version of a schema, made up for a test: no real schema needs to have two."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streams.serde import codec, release, schemas
from streams.shipped_files import resource

LATER: dict[str, Any] = {"name": "later", "type": ["null", "string"], "default": None}
"""A field that came later."""


@contextmanager
def another_version(name: str, folder: Path, *fields: dict[str, Any]) -> Iterator[Path]:
    """Within the block, this process has one more version of a schema, with these fields added.

    Yields the folder in which the process then has its schemas.
    """
    for each in vars(codec).values():
        if isinstance(each, codec.Codec):
            _ = each.schema  # A codec keeps the version that it saw first.
    copy = folder / "schemas"
    shutil.copytree(resource("schemas"), copy)
    path = copy / f"{name}.avsc"
    source = json.loads(path.read_text())
    source["fields"] += fields
    path.write_text(json.dumps(source))
    with pytest.MonkeyPatch.context() as patch:
        for module in (schemas, release):
            patch.setattr(module, "resource", lambda _: copy)
        try:
            _forget()
            release.release()
            _forget()
            yield copy
        finally:
            patch.undo()
            _forget()


def _forget() -> None:
    schemas.by_id.cache_clear()
    schemas.current.cache_clear()
