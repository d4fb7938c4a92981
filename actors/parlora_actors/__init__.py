"""Where a Parlora session runs: one module per kind of process, the host API and the command line."""
