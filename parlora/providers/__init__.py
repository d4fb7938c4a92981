"""Voice providers that come with Parlora."""
