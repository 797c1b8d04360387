"""Folders of other host versions."""

import os
from pathlib import Path

import hosts
import pytest


def test_a_complete_folder_is_used_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_CUDA_EP_HOSTS", str(tmp_path))
    (tmp_path / "0.0.1").mkdir()
    assert not hosts.is_installed("0.0.1")
    (tmp_path / "0.0.1" / ".complete").touch()
    monkeypatch.setattr(hosts.subprocess, "run", None)
    assert hosts.install("0.0.1") == tmp_path / "0.0.1"


def test_environment_puts_the_host_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_CUDA_EP_HOSTS", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "rest")
    assert hosts.environment("1.24.4")["PYTHONPATH"] == f"{tmp_path / '1.24.4'}{os.pathsep}rest"
