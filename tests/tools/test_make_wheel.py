"""Wheels: what goes in, the tag, and what is refused."""

import email
import subprocess
import zipfile
from pathlib import Path

import check_wheel
import make_wheel
import pytest


def metadata(wheel: Path, name: str) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        [path] = [entry for entry in archive.namelist() if entry.endswith(f".dist-info/{name}")]
        return email.message_from_bytes(archive.read(path))


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "libort_cuda_ep_sim.so"
    source = "int CreateEpFactories; int ReleaseEpFactory;"
    subprocess.run(["g++", "-shared", "-g", "-xc", "-o", path, "-"], input=source, text=True, check=True)
    return path


def test_a_wheel_with_a_library_is_for_one_platform_and_every_python(tmp_path: Path, library: Path) -> None:
    make_wheel.stage(tmp_path / "project", [library])
    wheel = make_wheel.make(tmp_path / "project", tmp_path / "out")
    tag = metadata(wheel, "WHEEL")
    assert tag["Tag"].startswith("py3-none-manylinux_2_34_")
    assert tag["Root-Is-Purelib"] == "false"
    facts = metadata(wheel, "METADATA")
    assert "cuda13" in facts.get_all("Provides-Extra", [])
    assert set(facts.get_all("License-File", [])) == {"LICENSE", "THIRD_PARTY_NOTICES.md"}
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.read(f"ort_cuda_ep/{library.name}")
    assert b".debug_info" in library.read_bytes()
    assert b".debug_info" not in packed
    assert make_wheel.make(tmp_path / "project", tmp_path / "again").read_bytes() == wheel.read_bytes()


def test_a_library_that_is_too_large_is_refused(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_wheel, "MAX_LIBRARY_MIB", 0.001)
    with pytest.raises(SystemExit, match=r"libort_cuda_ep_sim\.so is larger than 0\.001 MiB"):
        make_wheel.stage(tmp_path / "project", [library])


def test_a_wheel_without_a_library_is_pure(tmp_path: Path) -> None:
    make_wheel.stage(tmp_path / "project", [])
    wheel = make_wheel.make(tmp_path / "project", tmp_path / "out")
    assert metadata(wheel, "WHEEL")["Tag"] == "py3-none-any"


def test_a_library_that_is_not_built_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_wheel, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"build/sim/lib/libort_cuda_ep_sim.so is not built"):
        make_wheel.libraries("")


def test_a_library_that_breaks_the_rules_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "build" / "sim" / "lib" / "libort_cuda_ep_sim.so"
    place.parent.mkdir(parents=True)
    subprocess.run(["g++", "-shared", "-xc", "-o", place, "-"], input="int other;", text=True, check=True)
    monkeypatch.setattr(make_wheel, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="does not export CreateEpFactories"):
        make_wheel.libraries("")


def test_the_bare_environment_is_held_to_the_pinned_versions(tmp_path: Path) -> None:
    text = check_wheel.constraints(tmp_path).read_text()
    assert "numpy==" in text
    assert "onnxruntime==" not in text.replace("rapidocr-onnxruntime", "")
    assert all("==" in requirement for requirement in check_wheel.ocr_packages())
