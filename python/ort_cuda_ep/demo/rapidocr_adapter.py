"""RapidOCR with its three sessions made by us.

RapidOCR makes its own sessions and knows only providers that the host lists by name. Its three models all go through
one class, replaced here while the pipeline is being built; the rest of RapidOCR stays as it is.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnxruntime as ort
from rapidocr_onnxruntime import RapidOCR
from rapidocr_onnxruntime.utils import OrtInferSession

SessionMaker = Callable[[str], ort.InferenceSession]

_USERS = ("ch_ppocr_det.text_detect", "ch_ppocr_cls.text_cls", "ch_ppocr_rec.text_recognize")


class RecordedModel:
    """One of the pipeline's models: where it is, its session, and every input it was given."""

    def __init__(self, path: str, session: ort.InferenceSession) -> None:
        """Keeps the session; nothing has been recorded yet."""
        self.path = path
        self.session = session
        self.feeds: list[dict[str, np.ndarray]] = []

    @property
    def name(self) -> str:
        """The model's file name without its ending."""
        return Path(self.path).stem

    def run(self, content: np.ndarray) -> list[np.ndarray]:
        """Runs the session on its single input and records that input."""
        feed = {self.session.get_inputs()[0].name: content}
        self.feeds.append(feed)
        outputs: list[np.ndarray] = self.session.run(None, feed)
        return outputs


def build_pipeline(make_session: SessionMaker, **settings: Any) -> tuple[RapidOCR, list[RecordedModel]]:
    """RapidOCR with `settings` and sessions by `make_session(path)`, and its models in the order detect, turn, read."""
    models: list[RecordedModel] = []

    class AdaptedSession(OrtInferSession):  # type: ignore[misc]
        def __init__(self, config: dict[str, Any]) -> None:
            self.model = RecordedModel(config["model_path"], make_session(config["model_path"]))
            self.session = self.model.session
            models.append(self.model)

        def __call__(self, input_content: np.ndarray) -> list[np.ndarray]:
            return self.model.run(input_content)

    with contextlib.ExitStack() as patches:
        for module in _USERS:
            patches.enter_context(mock.patch(f"rapidocr_onnxruntime.{module}.OrtInferSession", AdaptedSession))
        return RapidOCR(**settings), models
