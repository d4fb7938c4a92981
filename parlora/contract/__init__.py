"""The four contracts an application or adapter implements: channel, provider, backend and context policy."""
