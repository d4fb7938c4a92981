"""Backends: how the application's work is run."""
