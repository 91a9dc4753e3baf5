"""Measure what pgbench makes of the same tables: what is left when nothing but PostgreSQL has to work."""
