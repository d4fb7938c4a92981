"""The embedded voice: speech recognition over a grammar and speech synthesis, without a key or a network.

`("parlora.providers.offline:Offline", {"grammar": "<user> = yes | no;"})`; needs the extra `offline`.
"""

from parlora.providers.offline.adapter import Offline

__all__ = ["Offline"]
