"""A node that is no node: one process that answers the host library as the launcher, the gateway and sessions would.

What a session does stands in the options of its channel: `script` is a list of event types to send once a subscriber
is there, `flood` a number of further events, and with `ends` the session is over then. `mood` is one of `obedient`,
`silent` (answers nothing), `silent-close` (does not answer close), `dies` (the coordinator's socket ends when
`snapshot` is called, and the gateway tells an obituary) and `forgotten` (then the gateway ends too and tells nothing).
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
import shutil
import socket
import sys
from typing import Any

from parlora.events import Event
from parlora.wire import FrameDecoder, MessageSet, encode_frame
from parlora_actors.messages import host as m
from parlora_actors.messages.launch import (
    FROM_LAUNCHER,
    TO_LAUNCHER,
    Launch,
    NodeFailed,
    NodeGone,
    NodeReady,
    StopNode,
)


class Peer:
    """One connection, either side of which is a MessageSet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.decoder = FrameDecoder()

    async def plain(self) -> Any:
        """Yield plain messages until the peer hangs up."""
        while data := await self.reader.read(65_536):
            for message in self.decoder.feed(data):
                yield message

    def send(self, outgoing: MessageSet, message: Any) -> None:
        self.writer.write(encode_frame(outgoing.encode(message)))


class Session:
    def __init__(self, node: Node, spec: Any, path: str) -> None:
        self.node, self.id, self.path = node, spec.session_id, path
        self.options = dict(spec.channel.options)
        if isinstance(self.options.get("script"), str):  # out of a TOML file, which has no null and no mixed maps
            self.options["script"] = json.loads(self.options["script"])
        self.mood = self.options.get("mood", "obedient")
        self.count = 0
        self.subscriptions: list[str] = []

    def event(self, type: str, payload: dict[str, Any] | None = None) -> Event:
        self.count += 1
        return Event(f"e{self.count}", "session", type, self.id, None, 0, None, None, self.count, payload or {})

    def tell(self, peer: Peer, event: Event) -> None:
        peer.send(m.FROM_SESSION, m.EventSent(event))
        for subscription in self.subscriptions:
            peer.send(m.FROM_SESSION, m.EventSent(event, subscription))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        peer.send(m.FROM_SESSION, m.Hello(self.options.get("major", 1), 0, "fake"))
        async for plain in peer.plain():
            message = m.TO_SESSION.decode(plain)
            if isinstance(message, m.CallSession) and self.mood != "silent":
                self.answer(peer, message)
        writer.close()

    def answer(self, peer: Peer, call: m.CallSession) -> None:
        value: Any = None
        if call.operation == "close" and self.mood == "silent-close":
            return
        if call.operation == "subscribe":
            self.subscriptions.append(call.arguments["subscription_id"])
        elif call.operation == "unsubscribe":
            self.subscriptions.remove(call.arguments["subscription_id"])
        elif call.operation == "status":
            value = {"status": "ready", "session_id": self.id}
        elif call.operation == "append_context":
            value = {"command_id": call.arguments.get("command_id", "made")}
        elif call.operation == "cancel":
            error = {"code": "not_found", "message": "no such request", "details": {}}
            peer.send(m.FROM_SESSION, m.Answer(call.id, None, error))
            return
        elif call.operation == "snapshot" and self.mood == "forgotten":
            peer.writer.close()
            del self.node.sessions[self.id]
            assert self.node.gateway is not None
            self.node.gateway.writer.close()
            return
        elif call.operation == "snapshot" and self.mood == "dies":
            peer.writer.close()
            self.node.gone(self, {"reason": "coordinator_down", "cause": "coordinator_down", "jobs": {}})
            return
        else:
            value = {"arguments": call.arguments}
        peer.send(m.FROM_SESSION, m.Answer(call.id, value))
        if call.operation == "subscribe" and len(self.subscriptions) == 1:
            self.run_script(peer)
        if call.operation == "close":
            payload = {"reason": call.arguments["policy"], "jobs": {}}
            self.tell(peer, self.event("closed", payload))
            peer.writer.close()
            self.node.gone(self, payload)

    def run_script(self, peer: Peer) -> None:
        for entry in self.options.get("script", ["ready"]):
            type, payload = entry if isinstance(entry, list) else (entry, {})
            self.tell(peer, self.event(type, payload))
        for _ in range(self.options.get("flood", 0)):
            self.tell(peer, self.event("extension"))
        if self.options.get("ends"):
            peer.writer.close()
            self.node.gone(self, self.options["script"][-1][1])


class Node:
    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.run_dir = os.path.join(os.environ["XDG_RUNTIME_DIR"], secrets.token_hex(4))  # looks like a node's, so
        os.mkdir(self.run_dir, 0o700)  # that the host removes it when the fake was killed
        self.lock = os.open(os.path.join(self.run_dir, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.gateway: Peer | None = None
        self.sessions: dict[str, Session] = {}
        self.servers: list[asyncio.Server] = []

    async def listen(self) -> None:
        path = os.path.join(self.run_dir, "node.sock")
        self.servers.append(await asyncio.start_unix_server(self.serve_gateway, path))

    async def serve_gateway(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = self.gateway = Peer(reader, writer)
        major = 9 if "major-9" in self.launch.env_drop else 1
        peer.send(m.FROM_GATEWAY, m.Hello(major, 0, "fake"))
        async for plain in peer.plain():
            message = m.TO_GATEWAY.decode(plain)
            if isinstance(message, m.StartSession):
                await self.start_session(peer, message)
            elif isinstance(message, m.ListSessions):
                listed = [{"session_id": id, "path": "", "state": "ready"} for id in self.sessions]
                peer.send(m.FROM_GATEWAY, m.Answer(message.id, listed))

    async def start_session(self, peer: Peer, message: m.StartSession) -> None:
        path = os.path.join(self.run_dir, f"{len(self.sessions)}.sock")
        session = self.sessions[message.spec.session_id] = Session(self, message.spec, path)
        if session.options.get("refuse"):
            error = {"code": "backpressure", "message": "too many sessions", "details": {"max_sessions": 0}}
            peer.send(m.FROM_GATEWAY, m.Answer(message.id, None, error))
            return
        if session.options.get("node_dies"):
            os._exit(3)
        if session.options.get("gateway_dies"):
            del self.sessions[session.id]
            peer.writer.close()
            return
        self.servers.append(await asyncio.start_unix_server(session.serve, path))
        peer.send(m.FROM_GATEWAY, m.Answer(message.id, {"session_id": session.id, "path": path}))

    def gone(self, session: Session, payload: dict[str, Any]) -> None:
        self.sessions.pop(session.id, None)
        assert self.gateway is not None
        self.gateway.send(m.FROM_GATEWAY, m.SessionGone(session.id, payload))


async def run(fd: int) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=fd))
    control, node = Peer(reader, writer), None
    async for plain in control.plain():
        message = TO_LAUNCHER.decode(plain)
        if isinstance(message, Launch):
            if "refuse-config" in message.env_drop:
                error = {"code": "unsupported", "message": "this kernel is too old", "details": {}}
                control.send(FROM_LAUNCHER, NodeFailed(error))
                return
            node = Node(message)
            await node.listen()
            control.send(FROM_LAUNCHER, NodeReady(node.run_dir, os.getpid(), os.getpid()))
        elif isinstance(message, StopNode):
            if node is not None and "ignore-stop" in node.launch.env_drop:
                continue
            control.send(FROM_LAUNCHER, NodeGone("stopped", 0))
            await writer.drain()
            break
    if node is not None:
        shutil.rmtree(node.run_dir, ignore_errors=True)
    os._exit(0)


def main(fd: int) -> int:
    asyncio.run(run(fd))
    return 0


if __name__ == "__main__":
    main(int(sys.argv[2]))
