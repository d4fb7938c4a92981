"""The system base: `start_system(directory)` runs Thespian over Unix sockets in that directory."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from thespian.actors import ActorSystem
from thespian.system import systemBase
from thespian.system.messages.admin import PendingActor
from thespian.system.multiprocCommon import MultiProcAdmin, multiprocessCommon
from thespian.system.transport import TransmitIntent, asyncTransportBase

from parlora.errors import AdapterFailed, Timeout, Unsupported
from parlora_actors.timing import ACTOR_CREATION_US, SYSTEM_STOP_US, now_us
from parlora_actors.transport import allow_list
from parlora_actors.transport.unix_transport import DIRECTORY_CAPABILITY, UnixTransport

BASE_NAME: Final = "parloraUnixBase"

_MAX_PENDING_TRANSMITS: Final = 5_000
"""With Thespian's 20, that many messages to one stuck actor silence their sender towards all others."""

_STOCK_BASES: Final = ("multiprocTCPBase", "multiprocUDPBase", "multiprocQueueBase")
_NO_LOGGING: Final = {"version": 1, "disable_existing_loggers": False, "root": {"level": "CRITICAL", "handlers": []}}


class UnixSystemBase(multiprocessCommon):  # type: ignore[misc]
    """One process per actor, Unix sockets between them."""

    transportType = UnixTransport

    def __init__(self, system: Any, logDefs: Any = None) -> None:
        system.capabilities |= {
            "Thespian ActorSystem Name": BASE_NAME,
            "Thespian ActorSystem Version": 1,
            "Thespian Watch Supported": True,
            "Process Startup Method": "fork",
        }
        super().__init__(system, logDefs)

    def create_root(self, path: str, between: Callable[[], None]) -> None:
        """Let the admin fork the actor `module.Class`; returns when it has an address.

        `between` is called every 20 ms meanwhile and may raise to end the wait. Raises `AdapterFailed` if the admin
        refuses, `Timeout` after 5 s. Thespian's own way waits 50 s without looking at anything.
        """
        deadline_us = now_us() + ACTOR_CREATION_US
        with contextlib.closing(self.transport.external_transport_clone()) as mailbox:
            answer = systemBase.NewActorResponse(mailbox, self.adminAddr)
            request = PendingActor(path, None, 1, None, globalName=None)
            mailbox.scheduleTransmit(None, TransmitIntent(self.adminAddr, request, onError=answer.transmit_failed))
            while answer.pending:
                if now_us() >= deadline_us:
                    raise Timeout("Thespian's admin does not fork the root actor")
                mailbox.run(answer, timedelta(milliseconds=20))
                between()
        if answer.failed or not answer.actor_address:
            raise AdapterFailed("Thespian's admin refuses to fork the root actor")


class _RefusedBase:
    def __init__(self, *_arguments: Any, **_keywords: Any) -> None:
        raise Unsupported("Thespian's own network bases unpickle data from anybody; use start_system")


def install() -> None:
    """Prepare Thespian in this process and all that it forks. Calling it again changes nothing."""
    allow_list.install()
    asyncTransportBase.MAX_PENDING_TRANSMITS = _MAX_PENDING_TRANSMITS
    systemBase.MAX_SYSTEM_SHUTDOWN_DELAY = timedelta(microseconds=SYSTEM_STOP_US)
    # When Thespian's logger dies, its admin reads this attribute to start another; the name is wrong in 4.0.1, and
    # the admin would die with the logger.
    MultiProcAdmin.logDefs = property(lambda admin: admin.logdefs)
    _register(BASE_NAME, UnixSystemBase)
    for name in _STOCK_BASES:
        _register(name, _RefusedBase)


def start_system(directory: str) -> UnixSystemBase:
    """Start Thespian in that directory and return its base.

    The directory must be private to this user (mode 0700); the calling process must have one thread, be a subreaper
    and outlive the system: every process of the system dies with it. Raises `Unsupported` for an unsafe directory.
    """
    install()
    system = ActorSystem(BASE_NAME, {DIRECTORY_CAPABILITY: directory}, logDefs=_NO_LOGGING, transientUnique=True)
    base: UnixSystemBase = system._systemBase
    return base


def _register(name: str, base: type) -> None:
    module = types.ModuleType(f"thespian.system.{name}")
    module.ActorSystemBase = base  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
