"""Audio: formats, frames, the shared-memory ring and what moves frames through it."""
