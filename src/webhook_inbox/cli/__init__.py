"""Offer the product on the command line, a file per verb."""
