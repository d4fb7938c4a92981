"""A caller from files: `("parlora.channels.wav:WavChannel", {"caller": "caller.wav", "record": "assistant.wav"})`."""

from parlora.channels.wav.channel import WavChannel

__all__ = ["WavChannel"]
