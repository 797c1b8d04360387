"""Where the library is looked for."""

from pathlib import Path

import pytest
from ort_cuda_ep import _library, get_library_path


@pytest.fixture(autouse=True)
def no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_library.LIBRARY_VARIABLE, raising=False)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package folder, outside of any source tree."""
    folder = tmp_path / "site-packages" / "ort_cuda_ep"
    folder.mkdir(parents=True)
    monkeypatch.setattr(_library, "_PACKAGE", folder)
    return folder


def test_the_override_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = tmp_path / "other.so"
    chosen.touch()
    monkeypatch.setenv(_library.LIBRARY_VARIABLE, str(chosen))
    assert get_library_path("sim") == str(chosen)


def test_a_wrong_override_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_library.LIBRARY_VARIABLE, str(tmp_path / "none.so"))
    with pytest.raises(FileNotFoundError, match=r"ORT_CUDA_EP_LIBRARY names .*none\.so, which is not a file"):
        get_library_path()


def test_an_unknown_device_is_an_error() -> None:
    with pytest.raises(ValueError, match="device must be one of auto, cuda, sim, not 'tpu'"):
        get_library_path("tpu")  # type: ignore[arg-type]


def test_nothing_built_says_where_it_looked(package: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make sim") as error:
        get_library_path("sim")
    assert str(package / "libort_cuda_ep_sim.so") in str(error.value)


@pytest.mark.parametrize(
    ("built", "gpu", "expected"),
    [
        (("cuda", "sim"), True, "libort_cuda_ep.so"),
        (("cuda", "sim"), False, "libort_cuda_ep_sim.so"),
        (("sim",), True, "libort_cuda_ep_sim.so"),
    ],
)
def test_auto(package: Path, monkeypatch: pytest.MonkeyPatch, built: tuple[str, ...], gpu: bool, expected: str) -> None:
    for device in built:
        (package / _library._FILE_NAMES[device]).touch()
    monkeypatch.setattr(_library, "gpu_driver_present", lambda: gpu)
    assert get_library_path("auto") == str(package / expected)


def test_a_source_tree_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "CMakePresets.json").touch()
    built = tmp_path / "build" / "sim" / "lib" / "libort_cuda_ep_sim.so"
    built.parent.mkdir(parents=True)
    built.touch()
    monkeypatch.setattr(_library, "_PACKAGE", tmp_path / "python" / "ort_cuda_ep")
    assert get_library_path("sim") == str(built)
