"""Registration and its errors, with the host's own functions replaced."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime as ort
import ort_cuda_ep
import pytest
from ort_cuda_ep import _driver, _provider


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "library.so"
    path.touch()
    monkeypatch.setenv(ort_cuda_ep.LIBRARY_VARIABLE, str(path))
    monkeypatch.setattr(_provider, "_registered", {})
    replace_devices(monkeypatch)
    return path


def replace_register(monkeypatch: pytest.MonkeyPatch, error: str = "") -> list[tuple[str, str]]:
    calls: list[tuple[str, str]] = []

    def fake(name: str, path: str) -> None:
        calls.append((name, path))
        if error:
            raise RuntimeError(error)

    monkeypatch.setattr(ort, "register_execution_provider_library", fake)
    return calls


def replace_devices(monkeypatch: pytest.MonkeyPatch, *metadata: dict[str, str]) -> None:
    found = [SimpleNamespace(ep_name="CUDAExecutionProvider", ep_metadata=entry) for entry in metadata]
    monkeypatch.setattr(ort, "get_ep_devices", lambda: found)


def test_names() -> None:
    assert ort_cuda_ep.get_ep_name() == "CUDAExecutionProvider"
    assert ort_cuda_ep.get_ep_names() == ["CUDAExecutionProvider"]


def test_registering_twice_is_once(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = replace_register(monkeypatch)
    assert ort_cuda_ep.register() == str(library)
    assert ort_cuda_ep.register() == str(library)
    assert calls == [("CUDAExecutionProvider", str(library))]


def test_registered_by_the_application_is_registered(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = replace_register(monkeypatch)
    replace_devices(monkeypatch, {"simulated": "1"})
    assert [ort_cuda_ep.register(), ort_cuda_ep.register()] == [str(library)] * 2
    assert not calls


def test_the_path_is_that_of_the_library_that_the_application_registered(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs.so"
    replace_devices(monkeypatch, {"simulated": "1", "library_path": str(theirs)})
    with pytest.raises(RuntimeError, match=rf"already uses {theirs}; {library} needs a process of its own"):
        ort_cuda_ep.register("sim")
    assert ort_cuda_ep.register() == str(theirs)
    assert _provider.registered_library() == str(theirs)


def test_a_second_library_is_refused(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_register(monkeypatch)
    ort_cuda_ep.register()
    other = tmp_path / "other.so"
    other.touch()
    monkeypatch.setenv(ort_cuda_ep.LIBRARY_VARIABLE, str(other))
    with pytest.raises(RuntimeError, match="needs a process of its own"):
        ort_cuda_ep.register()


@pytest.mark.usefixtures("library")
def test_a_bundled_plugin_gives_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_register(monkeypatch, "library is already registered under CUDAExecutionProvider")
    with pytest.raises(RuntimeError, match=r'registration_name="CudaPluginExecutionProvider"'):
        ort_cuda_ep.register()


def test_a_broken_library_is_named(library: Path) -> None:
    with pytest.raises(RuntimeError, match="could not load") as error:
        ort_cuda_ep.register()
    assert str(library) in str(error.value)


def test_only_our_devices_count(monkeypatch: pytest.MonkeyPatch) -> None:
    second, first = {"simulated": "0", "cuda_ordinal": "1", "name": "H200"}, {"simulated": "1", "cuda_ordinal": "0"}
    replace_devices(monkeypatch, {"version": "1"}, second, first)
    found = ort_cuda_ep.devices()
    assert [ort_cuda_ep.is_simulated(entry) for entry in found] == [True, False]
    assert [_provider.device_label(ordinal) for ordinal in (0, 1)] == ["simulated device", "H200"]


def test_our_devices_count_under_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    other = SimpleNamespace(ep_name="CudaPluginExecutionProvider", ep_metadata={"simulated": "1"})
    monkeypatch.setattr(ort, "get_ep_devices", lambda: [other])
    assert ort_cuda_ep.devices() == [other]


@pytest.mark.usefixtures("library")
def test_a_wrong_device_id_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_register(monkeypatch)
    replace_devices(monkeypatch, {"simulated": "1"})
    with pytest.raises(ValueError, match="device_id 3 does not exist: 1 device"):
        ort_cuda_ep.session("model.onnx", device_id=3)


@pytest.mark.usefixtures("library")
def test_without_a_device_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_register(monkeypatch)
    replace_devices(monkeypatch)
    monkeypatch.setattr(_driver, "probe", lambda: _driver.Driver(error="the driver is asleep"))
    with pytest.raises(ValueError, match="there is no device: the driver is asleep"):
        ort_cuda_ep.session("model.onnx")


@pytest.mark.usefixtures("library")
def test_a_failed_run_is_not_repeated_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_register(monkeypatch)
    replace_devices(monkeypatch, {"simulated": "1"})
    monkeypatch.setattr(ort, "SessionOptions", lambda: SimpleNamespace(add_provider_for_devices=lambda *_: None))
    monkeypatch.setattr(ort, "InferenceSession", lambda *_, **settings: settings)
    assert dict(ort_cuda_ep.session("model.onnx"))["enable_fallback"] == 0  # type: ignore[call-overload]


def test_options_become_text() -> None:
    options: dict[str, Any] = {"use_tf32": False, "enable_cuda_graph": True, "gpu_mem_limit": 5, "sdpa_kernel": "x"}
    expected = {"use_tf32": "0", "enable_cuda_graph": "1", "gpu_mem_limit": "5", "sdpa_kernel": "x"}
    assert _provider.as_text(options) == expected
