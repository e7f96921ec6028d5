"""Records, their Avro schemas and ids, and the keys under which they are stored."""
