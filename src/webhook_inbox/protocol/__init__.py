"""Make every decision once, as plans that ask for SQL and never wait."""
