"""The OCR demo on the CPU provider: its own parts work before the provider's are judged by it."""

import json

import pytest
import typer
from typer.testing import CliRunner

pytest.importorskip("rapidocr_onnxruntime")
from ort_cuda_ep.demo import ocr


def run_demo() -> tuple[int, dict[str, object]]:
    app = typer.Typer()
    app.command()(ocr.main)
    result = CliRunner().invoke(app, ["--provider", "cpu", "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_the_text_is_read() -> None:
    code, report = run_demo()
    assert code == 0
    assert report["ok"] is True


def test_wrong_text_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "LINES", (*ocr.LINES[:-1], "something else"))
    code, report = run_demo()
    assert code == 1
    assert report["ok"] is False
