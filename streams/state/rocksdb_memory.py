"""How the databases of a process use memory and files, and how their tables are laid out."""

from __future__ import annotations

from dataclasses import dataclass, field

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    MemtableFactory,
    Options,
    SliceTransform,
    WriteBufferManager,
)

from streams.state.open_files import MOST

_MIB = 1024 * 1024
_HASHED_BYTES = 16
_BUCKETS = 32_768


@dataclass(frozen=True)
class RocksMemory:
    """The shared resources of a process's databases: block cache, write buffers, and open files.

    Each database may hold `max_open_files` open.
    """

    cache: Cache = field(default_factory=lambda: Cache(128 * _MIB))
    write_buffers: WriteBufferManager = field(
        default_factory=lambda: WriteBufferManager(128 * _MIB, False)
    )
    max_open_files: int = MOST

    def walked(self) -> Options:
        """For tables whose entries are also read in order: skip lists."""
        options = self._options()
        options.set_memtable_whole_key_filtering(True)
        return options

    def looked_up(self) -> Options:
        """For tables read by key alone: hashed lists, whose writes cost less than half.

        A key is hashed by its first 16 bytes: the whole of a fingerprint.
        """
        options = self._options()
        options.set_prefix_extractor(SliceTransform.create_max_len_prefix(_HASHED_BYTES))
        hashed = MemtableFactory.hash_link_list(_BUCKETS)  # type: ignore[call-arg]  # not in its stub
        options.set_memtable_factory(hashed)
        # Writers wait if a second buffer is full before the first is on disk. That happens often in
        # a restore, but hardly ever with four buffers of half the size.
        options.set_write_buffer_size(8 * _MIB)
        options.set_max_write_buffer_number(4)
        # Keys come in no order, so level compaction would rewrite each level again and again. Until
        # it caught up, as after a restore, a lookup would ask the filter of each file on it.
        options.set_compaction_style(DBCompactionStyle.universal())
        return options

    def _options(self) -> Options:
        blocks = BlockBasedOptions()
        blocks.set_block_cache(self.cache)
        blocks.set_bloom_filter(10, False)
        blocks.set_cache_index_and_filter_blocks(True)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_block_based_table_factory(blocks)
        options.set_allow_concurrent_memtable_write(False)  # hashed lists have one writer
        options.set_write_buffer_manager(self.write_buffers)
        # Every table of every partition has its buffer, its filter and its buckets. Keep an idle
        # table below 1 MiB, or many partitions would use up the shared memory and flush for ever.
        options.set_write_buffer_size(16 * _MIB)
        options.set_arena_block_size(_MIB // 4)
        # Most lookups of dedup miss: without the filter each would walk a list in each segment.
        options.set_memtable_prefix_bloom_ratio(0.02)
        options.set_max_total_wal_size(128 * _MIB)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_keep_log_file_num(2)
        options.set_max_open_files(self.max_open_files)
        return options
