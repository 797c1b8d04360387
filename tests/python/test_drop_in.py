"""What `install` refuses, with the host's own functions replaced; tests/session/drop_in_suite.py has what it does."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import onnxruntime as ort
import ort_cuda_ep
import pytest
from ort_cuda_ep import _drop_in, _host, _options_copy, _provider

EP, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
OURS = SimpleNamespace(ep_name=EP, ep_metadata={"simulated": "1"})
FOREIGN = SimpleNamespace(ep_name=EP, ep_metadata={"version": "1.32"})


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A library that the host seems to take, and its device."""
    path = tmp_path / "library.so"
    path.touch()
    monkeypatch.setenv(ort_cuda_ep.LIBRARY_VARIABLE, str(path))
    monkeypatch.setattr(_provider, "_registered", {})
    monkeypatch.setattr(ort, "register_execution_provider_library", lambda *_: None)
    monkeypatch.setattr(ort, "get_ep_devices", lambda: [OURS])
    stock = vars(ort.InferenceSession)["_create_inference_session"]
    yield path
    ort_cuda_ep.uninstall()
    assert vars(ort.InferenceSession)["_create_inference_session"] is stock


def assert_nothing_is_replaced() -> None:
    assert _drop_in._installed is None
    assert ort.get_device() == "CPU"


@pytest.mark.parametrize("names", [[EP, CPU], ["TensorrtExecutionProvider", EP, "AzureExecutionProvider", CPU]])
def test_a_host_with_a_provider_of_its_own(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "get_available_providers", lambda: names)
    monkeypatch.setattr(_host, "distributions", lambda: ["onnxruntime-gpu 1.31.1"])
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=r"onnxruntime-gpu 1\.31\.1 already has a CUDAExecutionProvider of its own"
        ):
            ort_cuda_ep.install()
        assert_nothing_is_replaced()
        ort_cuda_ep.register()  # does not make the second call better


def test_a_host_with_a_bundled_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "get_ep_devices", lambda: [FOREIGN, OURS])
    with pytest.raises(RuntimeError, match="Install the plain `onnxruntime` package alone"):
        ort_cuda_ep.install()
    assert_nothing_is_replaced()


def test_ours_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    other = SimpleNamespace(ep_name="CudaPluginExecutionProvider", ep_metadata=OURS.ep_metadata)
    monkeypatch.setattr(ort, "get_ep_devices", lambda: [other])
    with pytest.raises(RuntimeError, match="registered as CudaPluginExecutionProvider; programs ask"):
        ort_cuda_ep.install()
    assert_nothing_is_replaced()


def test_a_plugin_of_ours_that_the_host_lists_is_no_reason(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["AzureExecutionProvider", CPU, EP])
    assert ort_cuda_ep.install() == ort_cuda_ep.install() == str(library)
    assert ort.get_available_providers() == [EP, "AzureExecutionProvider", CPU]


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "get_ep_devices", lambda: [])
    with pytest.raises(ValueError, match="there is no device"):
        ort_cuda_ep.install()
    assert_nothing_is_replaced()


def test_an_unknown_host_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_drop_in, "_CREATE", "_make_session")
    with pytest.raises(RuntimeError, match=r"has no InferenceSession\._make_session"):
        ort_cuda_ep.install()
    assert_nothing_is_replaced()


def test_a_session_without_the_provider_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host that would pass over the name."""
    monkeypatch.setattr(ort, "get_ep_devices", lambda: [OURS])
    ort_cuda_ep.install()
    monkeypatch.setattr(_host, "version", lambda: (1, 28))
    session = SimpleNamespace(_providers=[CPU])
    create = _drop_in._create(lambda *_: None)
    with pytest.raises(RuntimeError, match="made a session without CUDAExecutionProvider"):
        create(session, [EP], None)
    assert session._enable_fallback is False


def test_a_copy_of_options_has_the_custom_operators() -> None:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    assert _options_copy.with_providers(options, []).log_severity_level == 3
    _options_copy.register_custom_ops(lambda *_: None)(options, "remembered.so")
    with pytest.raises(Exception, match=r"remembered\.so"):
        _options_copy.with_providers(options, [])
