"""An export: it gathers rows until a part is full, writes the part, and then counts it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote

from streams.event_export import manifest as manifests
from streams.event_export.formats import encoder
from streams.event_export.manifest import ExportRefused, Manifest
from streams.event_reader.rows import row
from streams.event_reader.scan import Batch, Found, Scan
from streams.event_reader.span import Ranges, Span
from streams.http.moments import moment

ROWS_IN_PART = 50_000
"""So many events are held in memory, and written at once; about 100 MB."""

PART_BYTES = 64 * 1024 * 1024
"""Or as many as have so many bytes on the topic."""

PART_SECONDS = 30.0
"""A part is written after this time, too, so that a rare selection does not begin anew for ever."""

_LONGEST_TYPE = 120
Place = tuple[str, str]
"""Day and type."""


@dataclass(slots=True)
class Export:
    """One run into a directory that this process holds; `start` is what was written before."""

    folder: Path
    format: str
    start: Manifest
    rows_in_part: int = ROWS_IN_PART

    def run(self, scan: Scan) -> Manifest:
        """Write what a scan finds; return the manifest that counts it.

        Raises:
            OSError: a file cannot be written; what was counted before still is.
            KafkaUnavailable: Kafka does not answer; as before.
        """
        encode, written = encoder(self.format), self.start
        manifests.delete_uncounted(self.folder, written.parts)
        manifests.write(self.folder, written)
        gathered, following = list[Found](), _started(written, scan)
        size, began = 0, time.monotonic()
        for batch in scan.batches():
            gathered += batch.found
            size += sum(len(found.record) for found in batch.found)
            following = _passed(following, batch)
            late = time.monotonic() - began > PART_SECONDS
            if late or len(gathered) >= self.rows_in_part or size >= PART_BYTES:
                following = self._part(encode, gathered, following)
                gathered, size, began = [], 0, time.monotonic()
        return self._part(encode, gathered, following)

    def _part(
        self, encode: Callable[..., bytes], gathered: list[Found], following: Manifest
    ) -> Manifest:
        """Write the files of a part, then count it."""
        files: dict[Place, list[dict[str, Any]]] = defaultdict(list)
        for found in gathered:
            day = moment(found.at).date().isoformat()
            files[day, found.event.event_type].append(row(found))
        for (day, type_), rows in files.items():
            path = file_of(self.folder, following.parts, day, type_, self.format)
            path.parent.mkdir(parents=True, exist_ok=True)
            manifests.durable(path, encode(rows))
        counted = replace(
            following,
            parts=following.parts + bool(files),
            events=following.events + len(gathered),
        )
        manifests.write(self.folder, counted)
        return counted


def left(spans: Mapping[int, Span], written: Manifest) -> dict[int, Span]:
    """The parts of spans that are still to be read.

    Raises:
        ExportRefused: a partition ends before what is written: others have its offsets since.
    """
    found = {}
    for number, span in spans.items():
        reached = written.next.get(str(number), 0)
        if span.end < reached:
            raise ExportRefused(
                f"partition {number} ends at offset {span.end}, and this export has read on to "
                f"{reached}: if that stays so, Kafka has lost events; export into another directory"
            )
        found[number] = replace(span, first=max(span.first, reached))
    return found


def purged(spans: Mapping[int, Span], written: Manifest, chosen: Ranges) -> Iterator[str]:
    """Yield what was purged after the last run, before it could be exported.

    The last run may not have come as far as the first of the `chosen` offsets.
    """
    for number, span in spans.items():
        named, _ = chosen.get(number, (0, None))
        following = max(written.next.get(str(number), span.oldest), named)
        gone = min(span.oldest, span.end) - following
        if gone > 0:
            yield (
                f"{gone} offsets of partition {number} were purged before they were exported: the "
                "retention of `events` has passed"
            )


def file_of(folder: Path, part: int, day: str, type_: str, format_: str) -> Path:
    """The file of a part: its name holds a hash of the type, which differs where paths may not.

    Paths that ignore case, and types that are too long for one, share a directory.
    """
    print_ = blake2b(type_.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    name = whole = quote(type_, safe="", errors="surrogatepass")
    while len(name) > _LONGEST_TYPE:  # DuckDB and pandas refuse a name that ends within a character
        type_ = type_[:-1]
        name = quote(type_, safe="", errors="surrogatepass")
    if name != whole:
        name += f"~{print_}"
    return folder / f"day={day}" / f"type={name}" / f"{part:08}-{print_}.{format_}"


def _started(manifest: Manifest, scan: Scan) -> Manifest:
    """A manifest with a place for each partition, so that a later run misses what it loses."""
    starts = {str(number): at for number, at in scan.starts.items()}
    return replace(manifest, next=manifest.next | starts)


def _passed(manifest: Manifest, batch: Batch) -> Manifest:
    following = manifest.next | {str(number): at for number, at in batch.next.items()}
    unreadable = manifest.unreadable + len(batch.unreadable)
    return replace(manifest, next=following, unreadable=unreadable)
