"""Everything outside the pipeline: the vendor, the tools, the application."""
