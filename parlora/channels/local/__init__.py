"""The sound card of this machine: `("parlora.channels.local:LocalAudio", {})`. Needs the extra `local`."""

from parlora.channels.local.channel import LocalAudio

__all__ = ["LocalAudio"]
