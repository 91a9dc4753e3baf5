"""Meet HTTP: read a request within limits, send a receipt back."""
