"""Help users test: signed deliveries and fault points."""
