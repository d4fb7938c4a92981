"""`fake-provider` by hand, and `run` against a fake: the way to try a cloud provider without a key."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parlora.providers.openai.adapter import OpenAI
from parlora.testing.adapters import AdapterHarness
from parlora.testing.providers.gemini import FakeGemini
from parlora.testing.providers.gemini_session import Step as GeminiStep
from parlora.testing.providers.grok import FakeGrok
from parlora.testing.providers.grok_session import Step as GrokStep
from parlora.testing.providers.openai import FakeOpenAI
from parlora.testing.providers.openai_session import Step
from parlora_actors.cli_exit import ExitCode

from .conftest import Outcome

KEY = "sk-test-77c1e0b2a9f84d35"
CONFIG = """
[channel]
use = "parlora.channels.trivial:TrivialChannel"
[provider]
use = "parlora.providers.openai:OpenAI"
api_key_env = "PARLORA_TEST_CLI_KEY"
url = "{url}"
[backend]
use = "parlora.backends.trivial:TrivialBackend"
[context_policy]
use = "parlora.policies:Delegate"
"""


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PARLORA_TEST_CLI_KEY": KEY}
    process = subprocess.Popen(
        [sys.executable, "-m", "parlora_actors.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_fake_runs_by_hand_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLORA_TEST_CLI_KEY", KEY)
    with command("fake-provider", "openai", "--json") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["provider"] == "openai"
        with AdapterHarness(OpenAI(api_key_env="PARLORA_TEST_CLI_KEY", url=told["url"])) as harness:
            harness.start()
            assert harness.close_adapter().payload["finalization_observed"] is True
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == ExitCode.INTERRUPTED


def test_an_unknown_fake_and_a_taken_port_are_named(cli: Callable[..., Outcome]) -> None:
    unknown = cli("fake-provider", "nobody")
    assert (unknown.code, "openai" in unknown.err) == (ExitCode.BAD_INPUT, True)
    with FakeOpenAI() as fake:
        taken = cli("fake-provider", "openai", "--port", fake.url.split(":")[2].split("/")[0])
    assert (taken.code, "--port" in taken.err) == (ExitCode.BAD_INPUT, True)


def test_run_makes_a_call_with_the_fake_gemini(tmp_path: Path) -> None:
    script = (GeminiStep(1_000, "user", "where is my order"), GeminiStep(2_000, "call", "fc-1"))
    with FakeGemini(script, api_key=KEY) as fake:
        config = tmp_path / "call.toml"
        provider = 'use = "parlora.providers.gemini:Gemini"\nvoice = "Puck"'
        config.write_text(CONFIG.format(url=fake.url).replace('use = "parlora.providers.openai:OpenAI"', provider))
        with command("run", "--config", str(config), "--json") as process:
            fake.wait_for("toolResponse", timeout_s=60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert process.returncode == ExitCode.INTERRUPTED, err
    assert KEY not in out + err


def test_run_makes_a_call_with_the_fake_grok(tmp_path: Path) -> None:
    script = (GrokStep(1_000, "user", "where is my order"), GrokStep(2_000, "call", "call-1"))
    with FakeGrok(script, api_key=KEY) as fake:
        config = tmp_path / "call.toml"
        provider = 'use = "parlora.providers.grok:Grok"\nvoice = "eve"'
        config.write_text(CONFIG.format(url=fake.url).replace('use = "parlora.providers.openai:OpenAI"', provider))
        with command("run", "--config", str(config), "--json") as process:
            answer = fake.wait_for("conversation.item.create", timeout_s=60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert answer["item"]["call_id"] == "call-1"
    assert process.returncode == ExitCode.INTERRUPTED, err
    assert KEY not in out + err


def test_run_makes_a_call_with_a_fake_and_says_the_key_nowhere(tmp_path: Path) -> None:
    script = (Step(1_000, "user", "where is my order"), Step(2_000, "delegation", "item_1"))
    with FakeOpenAI(script, api_key=KEY) as fake:
        config = tmp_path / "call.toml"
        config.write_text(CONFIG.format(url=fake.url))
        with command("run", "--config", str(config), "--json") as process:
            fake.wait_for("session.commentary.append", timeout_s=60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert process.returncode == ExitCode.INTERRUPTED, err
    last = json.loads(out.splitlines()[-1])
    assert last["closed"]["finalization_observed"] is True
    assert KEY not in out + err
