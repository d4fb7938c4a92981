"""Lines of the node's log are whole, bounded JSON, and writing them never fails its caller."""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora_actors.node_log import MAX_LINE_BYTES, NodeLog, NodeLogHandler, rotate


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    yield reader, writer
    os.close(reader)
    os.close(writer)


def line(reader: int) -> dict[str, Any]:
    data = os.read(reader, 65_536)
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert len(data) <= MAX_LINE_BYTES
    record: dict[str, Any] = json.loads(data)
    return record


def test_a_line_has_its_context_and_its_fields(pipe: tuple[int, int]) -> None:
    NodeLog(pipe[1], role="channel", session_id="s1").write("info", "started", count=3)
    record = line(pipe[0])
    assert (record["role"], record["session_id"], record["level"], record["event"], record["count"]) == (
        "channel", "s1", "info", "started", 3,
    )  # fmt: skip
    assert record["pid"] == os.getpid()


@given(
    fields=st.dictionaries(
        st.text(max_size=20),
        st.one_of(st.text(max_size=6_000), st.lists(st.text(max_size=900)), st.binary()),
        max_size=9,
    )
)
def test_any_fields_make_one_bounded_line(fields: dict[str, Any]) -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    try:
        NodeLog(writer).write("info", "started", **{f"f{name}": value for name, value in fields.items()})
        assert line(reader)["event"] == "started"
    finally:
        os.close(reader)
        os.close(writer)


def test_what_cannot_be_written_is_counted() -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    os.close(reader)
    log = NodeLog(writer)
    log.write("info", "lost")
    assert log.dropped == 1
    os.close(writer)


def test_without_a_descriptor_lines_go_nowhere() -> None:
    NodeLog(None).write("info", "nowhere")


def test_warnings_of_libraries_arrive_without_their_traceback(pipe: tuple[int, int]) -> None:
    logger = logging.getLogger("tests.node_log")
    handler = NodeLogHandler(NodeLog(pipe[1]))
    logger.addHandler(handler)
    try:
        try:
            raise ValueError("secret")
        except ValueError:
            logger.exception("failed on %s", "purpose")
    finally:
        logger.removeHandler(handler)
    record = line(pipe[0])
    assert (record["level"], record["logger"], record["message"]) == ("error", "tests.node_log", "failed on purpose")
    assert "secret" not in json.dumps(record)


def test_a_full_log_is_moved_aside_while_others_go_on_appending(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    other = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(other, b"old\n")
        assert not rotate(str(path), fd, 5)
        os.write(other, b"old\n")
        assert rotate(str(path), fd, 5)
        os.write(other, b"new\n")
    finally:
        os.close(fd)
        os.close(other)
    assert path.read_bytes() == b"new\n"
    aside = tmp_path / "node.log.1"
    assert aside.read_bytes() == b"old\nold\n"
    assert aside.stat().st_mode & 0o777 == 0o600
