"""Ready-made context policies."""

from parlora.policies.delegate import Delegate

__all__ = ["Delegate"]
