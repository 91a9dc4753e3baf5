"""Make the effect of a webhook commit once, with the event, in the user's own PostgreSQL."""
