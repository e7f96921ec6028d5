"""The worker's end of the links to the owners of partitions."""
