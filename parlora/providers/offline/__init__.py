"""The embedded voice: speech recognition over a grammar and speech synthesis, without a key or a network."""
