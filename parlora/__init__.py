"""Parlora: a multi-process actor runtime for full-duplex voice agents."""
