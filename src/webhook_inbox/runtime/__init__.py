"""Run plans: pools, the key gate, and what starts and stops with the process."""
