"""A sound server of our own: PulseAudio as a plain child process. What its loudspeaker plays, its microphone hears.

Nothing in the home directory is read or written, and no real device is touched.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

INSTALL_LINE = "apt-get install portaudio19-dev pulseaudio libasound2-plugins && pip install 'parlora[local]'"
ALSA = """\
</usr/share/alsa/alsa.conf>
pcm.!default { type pulse }
ctl.!default { type pulse }
pcm.speaker { type pulse device speaker hint { show on description "speaker" } }
pcm.microphone { type pulse device "speaker.monitor" hint { show on description "microphone" } }
pcm.silence { type pulse device "nobody.monitor" hint { show on description "silence" } }
"""
PLUGINS = ("/usr/lib/*/alsa-lib/libasound_module_pcm_pulse.so", "/usr/lib64/alsa-lib/libasound_module_pcm_pulse.so")


def missing() -> str | None:
    """What this machine lacks for these tests."""
    if shutil.which("pulseaudio") is None:
        return "pulseaudio"
    if find_spec("pyaudio") is None:
        return "pyaudio"
    if not any(list(Path("/").glob(pattern[1:])) for pattern in PLUGINS):
        return "ALSA's plugin for PulseAudio"
    return None


class Pulse:
    """The server; `environment` is what a client needs to find it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="parlora-pulse-", dir="/tmp"))
        socket = self._folder / "native"
        config = self._folder / "alsa.conf"
        config.write_text(ALSA)
        self.environment = {"PULSE_SERVER": f"unix:{socket}", "ALSA_CONFIG_PATH": str(config)}
        modules = (
            f"module-native-protocol-unix auth-anonymous=1 socket={socket}",
            "module-null-sink sink_name=speaker rate=48000 channels=2",
            "module-null-sink sink_name=nobody rate=48000 channels=1",
            # A null sink wakes every two seconds unless somebody wants less; a stream that has run dry waits for that.
            "module-null-sink sink_name=drain rate=48000 channels=2",
            "module-loopback source=speaker.monitor sink=drain latency_msec=20",
        )
        loads = [word for module in modules for word in ("-L", module)]
        self.process = subprocess.Popen(
            ["pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no", *loads],
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(self._folder),
                "PULSE_RUNTIME_PATH": str(self._folder),
                "PULSE_STATE_PATH": str(self._folder),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while not socket.exists():
            assert self.process.poll() is None, "the sound server did not start"
            assert time.monotonic() < deadline, "the sound server has no socket after 10 s"
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
