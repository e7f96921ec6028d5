"""What a worker and the owner of its jobs say to each other, as JSON frames."""
