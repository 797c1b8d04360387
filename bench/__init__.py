"""Benchmarks of the provider: `python -m bench` (docs/benchmarks.md), and a few programs for single questions."""
