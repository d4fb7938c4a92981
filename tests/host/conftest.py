"""Fixtures of the host library's tests: an `ActorHost` on the fake node of `fake_node.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parlora import ActorHost, Session
from parlora_actors import host_launch

FAKE_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    f"sys.path.insert(0, {str(Path(__file__).parent)!r}); "
    "from fake_node import main; main(int(sys.argv[2]))"
)
COMPONENT = ("tests.nowhere:Thing", {})


@pytest.fixture
def fake_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `ActorHost` of the test talks to the fake node."""
    monkeypatch.setattr(host_launch, "_BOOT", FAKE_BOOT)


@pytest.fixture
def host(fake_node: None) -> Iterator[ActorHost]:
    with ActorHost() as host:
        yield host


@pytest.fixture
def start(host: ActorHost) -> Callable[..., Session]:
    """Start a session of the fake node; keywords are the fake's options, but `options`, which go to the host."""

    def start_session(options: dict[str, Any] | None = None, **fake: Any) -> Session:
        return host.start_session(
            channel=("tests.nowhere:Channel", fake),
            provider=COMPONENT,
            backend=COMPONENT,
            context_policy=COMPONENT,
            **(options or {}),
        )

    return start_session
