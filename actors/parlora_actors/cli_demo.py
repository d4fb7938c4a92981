"""`parlora-actor demo`: a whole spoken call, offline, and the proof of what was said in it."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

from parlora.contract.adapter import ClosePolicy
from parlora.errors import ParloraError, Timeout
from parlora.events import Event
from parlora.orderdesk.config import session_options
from parlora.orderdesk.demo_script import IGNORES_CANCEL, LOOKUP_DELAYS_MS, SCRIPT
from parlora.testing import leftovers
from parlora.wire import to_data
from parlora_actors import procfs
from parlora_actors.cli_exit import CommandError, ExitCode, print_json, say, system_errors
from parlora_actors.cli_signals import Interrupted, Interrupts
from parlora_actors.demo_caller import caller_options, output_folder
from parlora_actors.demo_ledger import CallLedger
from parlora_actors.demo_proof import hear, write_stereo
from parlora_actors.demo_report import EXPECTED, report
from parlora_actors.demo_timeline import Timeline
from parlora_actors.host import ActorHost
from parlora_actors.host_timing import now_us
from parlora_actors.session_handle import Session
from parlora_actors.subscriber import Subscriber

CALL_TIMEOUT_US: Final = 120_000_000
"""The call takes about 30 s; the slowest machine that still keeps media rate adds its recognition and starts."""

CHANNEL: Final = "parlora.channels.wav:WavChannel"
_POLL_S: Final = 0.1


def run_demo(out: Path | None, as_json: bool, preload: Sequence[str] = ()) -> ExitCode:
    """Make the call; returns the exit code. `preload` imports further modules in the node, for tests."""
    with Interrupts() as interrupts, output_folder(out) as folder:
        try:
            return _demonstrate(folder, as_json, preload, interrupts, is_kept=out is not None)
        except Interrupted:
            say("interrupted")
            return interrupts.exit_code or ExitCode.INTERRUPTED


def _demonstrate(
    folder: Path, as_json: bool, preload: Sequence[str], interrupts: Interrupts, is_kept: bool
) -> ExitCode:
    leftovers.become_subreaper()  # an orphan of the node would be found here, not lost to init
    before = leftovers.snapshot()
    say("the caller's words are being spoken")
    with tempfile.TemporaryDirectory(prefix="parlora-demo-clips-") as clips:
        with system_errors():
            channel = caller_options(SCRIPT, folder, Path(clips))
        ledger, processes = _call(folder, channel, preload, interrupts)
    left = [str(each) for each in leftovers.wait(before)]
    if interrupts.asked:
        say("interrupted")
        return interrupts.exit_code or ExitCode.INTERRUPTED
    say("the assistant's recorded speech is being recognized")
    heard = hear(folder / "assistant.wav") if (folder / "assistant.wav").exists() else []
    if heard:
        write_stereo(folder / "caller.wav", folder / "assistant.wav", folder / "call.wav")
    result = report(ledger, heard, processes, left)
    _tell(result, as_json, folder if is_kept else None)
    return ExitCode.OK if result["ok"] else ExitCode.FAILED


def _call(
    folder: Path, channel: dict[str, Any], preload: Sequence[str], interrupts: Interrupts
) -> tuple[CallLedger, int]:
    """The call itself; returns its facts and how many processes ran it."""
    host = ActorHost(preload=preload)
    try:
        with system_errors():
            host.start()
        interrupts.close_in_order()
        ledger = CallLedger(now_us(), EXPECTED)
        events = Subscriber()
        session = host.start_session(
            channel=(CHANNEL, channel),
            event_sink=events,
            **session_options(delays_ms=LOOKUP_DELAYS_MS, ignores_cancel=IGNORES_CANCEL),
        )
        with (folder / "events.jsonl").open("w", encoding="utf-8") as log:
            return ledger, _follow(host, session, events, ledger, log, interrupts)
    except Interrupted:
        host.kill()
        raise
    finally:
        with system_errors():
            host.close()


def _follow(
    host: ActorHost, session: Session, events: Subscriber, ledger: CallLedger, log: IO[str], interrupts: Interrupts
) -> int:
    timeline = Timeline(ledger)
    deadline_us = now_us() + CALL_TIMEOUT_US
    processes = 0
    closing = False
    with timeline.running():
        for event in _events(events):
            if event is not None:
                log.write(json.dumps(to_data(event)) + "\n")
                ledger.observe(event)
                timeline.tell(event)
            if ledger.ready_ms is not None and not processes:
                processes = _count_processes(host)
            if not closing and (interrupts.asked or ledger.is_over(now_us()) or now_us() >= deadline_us):
                closing = True
                policy = ClosePolicy.CANCEL if interrupts.asked else ClosePolicy.FINISH
                with contextlib.suppress(ParloraError):  # it may have ended in this moment
                    session.close(policy)
            if ledger.closed is not None:
                break
    session.wait_closed()
    return processes


def _events(events: Subscriber) -> Iterator[Event | None]:
    """Each event, and None whenever there was none for a moment."""
    while True:
        try:
            item = events.get(_POLL_S)
        except Timeout:
            yield None
            continue
        if not isinstance(item, Event):
            raise CommandError(ExitCode.SYSTEM, Timeout("the events came faster than they could be written"))
        yield item


def _count_processes(host: ActorHost) -> int:
    return 0 if host.pid is None else 1 + len(procfs.descendants(host.pid))


def _tell(result: dict[str, Any], as_json: bool, folder: Path | None) -> None:
    if as_json:
        print_json(result)
        return
    for answer in result["answers"]:
        print(f"heard: {answer['text']}")
    print(f"ready after {result['ready_ms']} ms, {result['processes']} processes")
    print(f"results that came too late: {result['late_results']}, withheld: {result['withheld']}")
    for problem in result["problems"]:
        print(f"problem: {problem}")
    if folder is not None:
        print(f"recordings and events: {folder}")
    print("the call went as it should" if result["ok"] else "the call did not go as it should")
