"""Hold one receiver a file, as its users write it; each runs in a process of its own."""
