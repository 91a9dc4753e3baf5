"""Wait for PostgreSQL, each in one way; a driver knows SQL and no webhooks."""
