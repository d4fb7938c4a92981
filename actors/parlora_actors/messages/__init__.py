"""What Parlora's processes say to each other: one module per boundary, each a `MessageSet` of frozen dataclasses."""
