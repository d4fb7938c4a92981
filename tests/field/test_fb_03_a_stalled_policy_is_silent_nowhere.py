"""FB-03: the code that decides stops for half a minute; elsewhere the caller heard nothing for sixty seconds."""

from collections.abc import Callable
from pathlib import Path

from parlora.testing import scripted
from parlora.testing.script import acknowledge, delegate, expect, finish
from tests.sessions import Call, wait_for

FRAME_US = 20_000


def frames(call: Call) -> int:
    count: int = call.session.status()["health"]["output_forwarded"]["frames"]
    return count


def test_the_audio_does_not_notice_and_the_worker_is_replaced(call: Callable[..., Call], tmp_path: Path) -> None:
    def run(policy: object) -> dict[str, int]:
        session = call(
            channel=scripted.channel(),
            provider=scripted.provider(delegate("d1"), expect("append_context", name="told"), acknowledge("told")),
            backend=scripted.backend(expect("submit", name="work"), finish("work", "Done.")),
            context_policy=policy,
            limits={"policy_timeout_ms": 800},
        ).ready()
        before = {role: session.pid(role) for role in ("channel", "provider", "output_pipeline", "policy")}
        session.event("result_delivery", "session", stage="accepted")
        wait_for("two seconds of audio", lambda: frames(session) > 100)
        after = {role: session.pid(role) for role in before}
        sleeps = policy != "tests.misbehaving:start_everything"
        assert {role for role in before if before[role] != after[role]} == ({"policy"} if sleeps else set())
        assert bool(session.of("policy_failed")) is sleeps
        session.end()
        scripted.check_scripts(session.events)
        return scripted.audio_counts(session.events, "channel")

    idle = run("tests.misbehaving:start_everything")
    stalled = run(("tests.contract.policies:sleeps", {"mark": str(tmp_path / "mark")}))
    assert (stalled["missing"], stalled["repeated"]) == (0, 0)
    # a loaded machine may pause either run; sixty seconds, or one, it does not
    assert stalled["longest_pause_us"] < max(4 * idle["longest_pause_us"], 10 * FRAME_US, 500_000)
