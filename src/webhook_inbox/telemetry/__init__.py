"""Name every metric and log event once."""
