"""Hold the plain frozen data that every room shares; nothing here does I/O."""
