"""A processor as its task calls it: optional hooks looked up once, and failures that end the stage.

Any failure other than a `PoisonRecord` is a fault of the store, the disk, the memory or our own
code. Its message names the place, the cause and the remedy.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import structlog

from streams.errors import ConfigError, PoisonRecord, StageFailed, StoreDamaged, TidegateError
from streams.runtime.context import TaskContext
from streams.runtime.processor import Context, Processor, Record

log = structlog.get_logger(__name__)


class ProcessorCalls:
    """One processor of a stage; `batch` and `initiate` are None if it lacks them."""

    def __init__(self, stage: str, partition: int, processor: Processor) -> None:
        self._stage = stage
        self._partition = partition
        self._processor = processor
        self.batch = self._optional("process_batch")
        self.initiate = self._optional("initiate")
        self._refused: Any = processor.refused if self.initiate else None  # type: ignore[attr-defined]
        self._undone = self._optional("undone")
        self._committed = self._optional("committed")
        self._closed = self._optional("closed")
        self._finish = self._optional("finish")

    def restoring(self, ctx: TaskContext) -> Generator[None]:
        """Run `restored` part by part.

        Raises:
            TidegateError: it wrote.
        """
        before = ctx.pending
        with self._ending("restored"):
            yield from self._processor.restored(ctx) or ()
        self._refuse_writes("restored", before, ctx)

    def undo(self, log: Callable[[], None], ctx: TaskContext) -> None:
        """Bring derived state in line with stores in which something was undone.

        This runs `undone`, or else a whole `restored`.

        Raises:
            TidegateError: it wrote.
        """
        with self._ending("on_undo"):
            log()
        if self._undone is None:
            for _ in self.restoring(ctx):
                pass
            return
        before = ctx.pending
        with self._ending("undone"):
            self._undone(ctx)
        self._refuse_writes("undone", before, ctx)

    def handle(self, record: Record, ctx: Context, read: Record) -> None:
        """Run `process`; `read` is the record that was read, which may bring another one back.

        Raises:
            PoisonRecord: the record is at fault.
            StageFailed: the record is not at fault.
        """
        try:
            self._processor.process(record, ctx)
        except (PoisonRecord, StoreDamaged):
            raise
        except Exception as error:
            self._fail(_at(read), error, _way_out(read, error))

    def handle_all(self, records: Sequence[Record], ctx: Context) -> None:
        """Run `process_batch`, which exists.

        Raises:
            PoisonRecord: one record is at fault.
            StageFailed: no record is at fault.
        """
        assert self.batch is not None  # noqa: S101
        try:
            self.batch(records, ctx)
        except (PoisonRecord, StoreDamaged):
            raise
        except Exception as error:
            log.warning("a batch raised", error=traceback.format_exc())
            raise StageFailed(_cause(error)) from error

    def punctuate(self, now: int, ctx: Context) -> None:
        with self._ending("punctuate"):
            self._processor.punctuate(now, ctx)

    def start(self, ctx: Context, limit: int | None) -> None:
        """Run `initiate`, if it exists."""
        if self.initiate is not None:
            with self._ending("initiate"):
                self.initiate(ctx, limit)

    def finish(self, ctx: Context) -> None:
        """Run `finish`, if it exists."""
        if self._finish is not None:
            with self._ending("finish"):
                self._finish(ctx)

    def refuse(
        self, topic: str, key: bytes | None, detail: str, missing: bool, ctx: Context
    ) -> None:
        with self._ending("refused"):
            self._refused(topic, key, detail, missing, ctx)

    def committed(self, ctx: TaskContext) -> None:
        with self._ending("on_commit"):
            ctx.log.committed()
        if self._committed is not None:
            with self._ending("committed"):
                self._committed()

    def closed(self) -> None:
        """Run `closed`; its failure does not keep the stores from being closed."""
        try:
            if self._closed is not None:
                self._closed()
        except Exception:
            error = traceback.format_exc()
            log.error(
                "processor raised", where=f"partition {self._partition} (`closed`)", error=error
            )

    def _optional(self, name: str) -> Callable[..., Any] | None:
        found: Callable[..., Any] | None = getattr(self._processor, name, None)
        return found

    def _refuse_writes(self, hook: str, before: tuple[int, int], ctx: TaskContext) -> None:
        if ctx.pending != before:
            raise TidegateError(f"stage {self._stage}: its processor wrote in `{hook}`")

    @contextmanager
    def _ending(self, hook: str) -> Iterator[None]:
        try:
            yield
        except (StoreDamaged, StageFailed):
            raise
        except Exception as error:
            self._fail(f"partition {self._partition} (`{hook}`)", error, "")

    def _fail(self, where: str, error: Exception, way_out: str) -> NoReturn:
        log.error("processor raised", where=where, error=traceback.format_exc())
        raise StageFailed(
            f"stage {self._stage} cannot go on at {where}: {_cause(error)}. Nothing of this step "
            f"is committed. Mend the cause and start the stage again{way_out}"
        ) from error


def _at(record: Record) -> str:
    return f"{record.topic}-{record.partition}@{record.offset}"


def _way_out(record: Record, error: Exception) -> str:
    """How to set the record aside; empty if the machine failed: the next would fail too."""
    if isinstance(error, ConfigError | OSError | MemoryError):
        return ""
    place = f"{record.topic}:{record.partition}:{record.offset}"
    return f"; or start it once with TIDEGATE_SET_ASIDE={place}, which sends this record to dlq"


def _cause(error: Exception) -> str:
    text = str(error).rstrip(".")
    if isinstance(error, TidegateError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
