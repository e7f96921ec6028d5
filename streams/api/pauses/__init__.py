"""Pauses: tenants, types, pools, sources, tools and workers that people have stopped."""
