"""The HTTP side: listener, connections and paths; it reads and refuses requests."""
