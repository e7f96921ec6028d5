"""Traces by OpenTelemetry: off unless a collector is named, see docs/how-to/traces.md.

`conventions` has every name. `carried` reads and makes the `traceparent` that records carry.
`spans` records, and `steps` records what a stage does with a batch. Only `sdk` imports
OpenTelemetry's SDK.
"""
