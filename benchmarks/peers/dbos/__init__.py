"""DBOS on PostgreSQL behind the front."""
