"""What the cloud providers share: what their codecs say, the WebSocket, and the shell that moves bytes."""
