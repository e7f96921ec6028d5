"""The analytics stage: figures by tenant, source and type, in minutes and hours of event time.

Faust reads the topics. Each input partition has one RocksDB database with its tables *and* the
offset up to which they are counted, so a crash leaves both or neither (docs/analytics.md).

`sketches` and `figures` are values, `windows` says where they are kept, `folds` has one plain
function for each topic, `partition` folds one partition, `committed` and `app` are Faust's side,
and `query`, `http` and `metrics` serve the result.
"""
