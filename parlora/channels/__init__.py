"""Channels: how a caller is reached."""
