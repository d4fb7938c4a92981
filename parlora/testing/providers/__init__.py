"""Local stand-ins for the cloud services: they speak the protocols, and misbehave on order."""
