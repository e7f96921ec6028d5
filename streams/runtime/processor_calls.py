"""A processor as its task calls it: failures that no record caused end the stage.

Any failure other than a `PoisonRecord` is a fault of the store, the disk, the memory or our own
code. Its message names the place, the cause and the remedy. But a command of the link that the code
cannot handle is poison: otherwise one worker could end this process, and each owner after it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import structlog

from streams.errors import ConfigError, PoisonRecord, StageFailed, StoreDamaged, TidegateError
from streams.runtime.context import TaskContext
from streams.runtime.link import LINK
from streams.runtime.occasions import Occasions
from streams.runtime.processor import BatchProcessor, Context, Processor, Record

log = structlog.get_logger(__name__)

_OF_THE_MACHINE = (StageFailed, ConfigError, OSError, MemoryError)
"""What no record causes: the next one would fail, too."""


class ProcessorCalls:
    """The hooks of one processor; `batches` and `initiates` say which of two kinds it is."""

    def __init__(self, stage: str, partition: int, processor: Processor) -> None:
        self._stage = stage
        self._partition = partition
        self._processor = processor
        self.batches = isinstance(processor, BatchProcessor)
        self.initiates = type(processor).initiate is not Processor.initiate
        self._occasions = Occasions()

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
        """Run `undone`, after the calls of the log.

        Raises:
            TidegateError: it wrote.
        """
        with self._ending("on_undo"):
            log()
        before = ctx.pending
        with self._ending("undone"):
            self._processor.undone(ctx)
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
            if read.topic == LINK and not isinstance(error, _OF_THE_MACHINE):
                if self._occasions.is_told(error):
                    log.error("a worker's command raised", error=traceback.format_exc())
                raise PoisonRecord("not_handled", _cause(error)) from error
            self._fail(_at(read), error, _way_out(read, error))

    def batch(self, records: Sequence[Record], ctx: Context) -> None:
        """Run `process_batch`; whatever it raises is the caller's to judge."""
        assert isinstance(self._processor, BatchProcessor)  # noqa: S101
        self._processor.process_batch(records, ctx)

    def handle_all(self, records: Sequence[Record], ctx: Context) -> None:
        """Run `process_batch` of one that `batches`.

        Raises:
            PoisonRecord: one record is at fault.
            StageFailed: no record is at fault.
        """
        try:
            self.batch(records, ctx)
        except (PoisonRecord, StoreDamaged):
            raise
        except Exception as error:
            log.warning("a batch raised", error=traceback.format_exc())
            raise StageFailed(_cause(error)) from error

    def answer(self, record: Record, poison: PoisonRecord, ctx: Context, read: Record) -> bool:
        """Run `answer`; `read` is as in `handle`.

        Raises:
            StageFailed: it cannot.
        """
        try:
            return self._processor.answer(record, poison, ctx)
        except StoreDamaged:
            raise
        except Exception as error:
            self._fail(_at(read), error, _way_out(read, error))

    def punctuate(self, now: int, ctx: Context) -> None:
        with self._ending("punctuate"):
            self._processor.punctuate(now, ctx)

    def rests(self, ctx: Context) -> bool:
        with self._ending("rests"):
            return self._processor.rests(ctx)

    def may_wait(self, records: Sequence[Record], ctx: Context) -> bool:
        with self._ending("may_wait"):
            return self._processor.may_wait(records, ctx)

    def initiate(self, ctx: Context, limit: int | None) -> None:
        with self._ending("initiate"):
            self._processor.initiate(ctx, limit)

    def finish(self, ctx: Context) -> None:
        with self._ending("finish"):
            self._processor.finish(ctx)

    def refuse(
        self, topic: str, key: bytes | None, detail: str, missing: bool, ctx: Context
    ) -> None:
        with self._ending("refused"):
            self._processor.refused(topic, key, detail, missing, ctx)

    def committed(self, ctx: TaskContext) -> None:
        with self._ending("on_commit"):
            ctx.log.committed()
        with self._ending("committed"):
            self._processor.committed()

    def closed(self) -> None:
        """Run `closed`; its failure does not keep the stores from being closed."""
        try:
            self._processor.closed()
        except Exception:
            error = traceback.format_exc()
            log.error(
                "processor raised", where=f"partition {self._partition} (`closed`)", error=error
            )

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
    if isinstance(error, _OF_THE_MACHINE):
        return ""
    if record.topic == LINK:
        worker = (record.key or b"").decode(errors="replace")
        return f"; or end the worker {worker}, which sends this command to each owner"
    place = f"{record.topic}:{record.partition}:{record.offset}"
    return f"; or start it once with TIDEGATE_SET_ASIDE={place}, which sends this record to dlq"


def _cause(error: Exception) -> str:
    text = str(error).rstrip(".")
    if isinstance(error, TidegateError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
