"""Hold all SQL text of the product, one statement a file, and nothing else."""
