"""The vendor's own models as judge of what is sent, in both directions.

They refuse unknown fields at every level, and warn of unknown enum values, which is made an error here. One field that
the wire has is missing in the setup model and is judged alone.
"""

import json
import warnings
from typing import Any

from google.genai import types


def check_client(text: str) -> types.LiveClientMessage:
    """The message as the SDK's model; fails for anything the vendor does not document."""
    message = json.loads(text)
    realtime = message.get("setup", {}).pop("realtimeInputConfig", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if realtime is not None:
            types.RealtimeInputConfig.model_validate(realtime)
        return types.LiveClientMessage.model_validate(message)


def check_server(message: str | dict[str, Any]) -> types.LiveServerMessage:
    """The same for what a server says."""
    content = json.loads(message) if isinstance(message, str) else message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return types.LiveServerMessage.model_validate(content)
