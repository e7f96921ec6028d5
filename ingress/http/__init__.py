"""The HTTP side: the listener, connections, paths, and how requests are read and refused."""
