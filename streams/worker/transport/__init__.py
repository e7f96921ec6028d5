"""How a worker reaches the rest of the pipeline: by Kafka, or in memory."""
