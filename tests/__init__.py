"""The suite; a package of its own, so that no other that calls itself ``tests`` is taken for it."""
