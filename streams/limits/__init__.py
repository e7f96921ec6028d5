"""How many jobs run at once and start in a time, by tenant, type, pool, source or another value.

A limit has a *bucket* for each value of its scope that its `match` selects (`buckets`), and each
bucket has the limit's cap and rate to itself (`caps`).
"""
