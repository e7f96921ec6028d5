"""How a process ends, whatever its threads do."""
