"""Compare layouts of the tables: what each writes, leaves behind and reads for the same events."""
