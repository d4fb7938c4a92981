"""Ready-made context policies."""
