"""Side effects of jobs, and the settlement of unknown ones."""
