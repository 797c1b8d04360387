"""The host's own profile of a session: the file it writes, and its events for nodes."""

import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]

_SUFFIX = "_kernel_time"


def read(path: str | Path) -> list[Event]:
    """The events of a profile, which the host writes as UTF-8; ValueError where it wrote no JSON."""
    found: list[Event] = json.loads(Path(path).read_text(encoding="utf-8"))
    return found


def is_node(event: Event) -> bool:
    """Whether this is one call of a node."""
    return event.get("cat") == "Node" and str(event.get("name", "")).endswith(_SUFFIX)


def node_name(event: Event) -> str:
    """The node's name; of other events their own."""
    return str(event["name"]).removesuffix(_SUFFIX)
