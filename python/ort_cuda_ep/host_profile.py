"""The host's own profile of a session: how it is recorded, the file it writes, and its events for nodes."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime as ort

Event = dict[str, Any]

_SUFFIX = "_kernel_time"


class ProfileError(ValueError):
    """What makes a profile impossible; the text says what to do."""


def record(
    make_session: Callable[[ort.SessionOptions], ort.InferenceSession],
    run: Callable[[ort.InferenceSession], None],
    *,
    log_severity: int,
) -> list[Event]:
    """The events of what `run` does with a profiled session; ProfileError, or errors of the host."""
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.log_severity_level = log_severity
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = make_session(options)
        run(session)
        return read(session.end_profiling())


def read(path: str | Path) -> list[Event]:
    """The events of a profile, which the host writes as UTF-8; ProfileError where it wrote no JSON."""
    try:
        found: list[Event] = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ProfileError(
            f"the host wrote a profile that is no JSON (names of nodes with quotes or backslashes?): {error}"
        ) from error
    return found


def is_node(event: Event) -> bool:
    """Whether this is one call of a node."""
    return event.get("cat") == "Node" and str(event.get("name", "")).endswith(_SUFFIX)


def node_name(event: Event) -> str:
    """The node's name; of other events their own."""
    return str(event["name"]).removesuffix(_SUFFIX)
