"""Pauses: tenants, types, pools, sources and tools that people have stopped for a while."""
