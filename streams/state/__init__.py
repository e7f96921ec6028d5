"""Stores: ordered maps on RocksDB or in memory, with uncommitted writes laid over them."""
