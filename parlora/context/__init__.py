"""What a context policy is given and what it answers."""
