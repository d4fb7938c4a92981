"""OpenAI GPT-Live over its Live WebSocket."""
