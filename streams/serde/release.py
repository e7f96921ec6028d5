"""Release changed schemas: `python -m streams.serde.release`.

It copies each `schemas/<name>.avsc` that differs from its newest released version to `history/` and
gives it the next id. `tests/unit/serde/test_schemas.py` then proves it compatible both ways.
"""

from __future__ import annotations

import json

from streams.serde.schemas import digest
from streams.shipped_files import resource


def release() -> list[str]:
    """Write new versions and ids; returns `name.version` of each release."""
    folder = resource("schemas")
    (folder / "history").mkdir(exist_ok=True)
    lock = folder / "ids.lock"
    locked = json.loads(lock.read_text()) if lock.exists() else {}
    released = []
    for path in sorted(folder.glob("*.avsc")):
        versions = [entry for entry in locked.values() if entry["name"] == path.stem]
        newest = max(versions, key=lambda entry: entry["version"], default=None)
        sha256 = digest(json.loads(path.read_text()))
        if newest and newest["sha256"] == sha256:
            continue
        version = newest["version"] + 1 if newest else 1
        (folder / "history" / f"{path.stem}.{version}.avsc").write_text(path.read_text())
        id_ = max(map(int, locked), default=0) + 1
        locked[str(id_)] = {"name": path.stem, "version": version, "sha256": sha256}
        released.append(f"{path.stem}.{version}")
    lock.write_text(json.dumps(locked, indent=1) + "\n")
    return released


if __name__ == "__main__":
    print("\n".join(release()) or "every schema is released")
