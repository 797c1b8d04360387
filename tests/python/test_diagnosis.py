"""`doctor`: what is a problem and what is not, facts that C++ has too, and the command on the library under test."""

import re
from pathlib import Path
from types import SimpleNamespace

import command
import pytest
from ort_cuda_ep import _driver, _host, diagnosis, selftest, vendor
from ort_cuda_ep.diagnosis import NOTE, OK, PROBLEM, Finding

SOURCE = command.ROOT / "src"
GPU = ("H200",)


def patch_machine(
    monkeypatch: pytest.MonkeyPatch, hardware: tuple[str, ...] = (), driver: _driver.Driver | None = None
) -> None:
    monkeypatch.setattr(_driver, "hardware", lambda: list(hardware))
    monkeypatch.setattr(_driver, "probe", lambda: driver or _driver.Driver(error="no driver"))


def by_subject(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings}


@pytest.mark.parametrize(
    ("device", "hardware", "names", "visible", "expected"),
    [
        ("auto", (), (), None, False),
        ("auto", ("0000:01:00.0",), (), None, True),  # a card without a driver
        ("auto", (), GPU, None, True),
        ("auto", ("0000:01:00.0",), (), "-1", False),
        ("auto", ("0000:01:00.0",), (), "", False),
        ("auto", ("0000:01:00.0",), GPU, "1,0", True),
        ("cuda", (), (), None, True),
        ("cuda", (), (), "-1", True),
        ("sim", ("0000:01:00.0",), GPU, None, False),
    ],
)
def test_when_a_gpu_is_expected(
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    hardware: tuple[str, ...],
    names: tuple[str, ...],
    visible: str | None,
    expected: bool,
) -> None:
    patch_machine(monkeypatch, hardware, _driver.Driver(names, 13000))
    if visible is None:
        monkeypatch.delenv(_driver.VISIBLE_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(_driver.VISIBLE_VARIABLE, visible)
    assert diagnosis.gpu_expected(device) is expected


def test_a_card_without_a_driver_is_a_problem_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_machine(monkeypatch, ("0000:01:00.0",))
    found = by_subject(diagnosis._gpus(expected=True))["driver"]
    assert (found.state, found.detail) == (PROBLEM, "no driver")
    assert found.advice.startswith("install NVIDIA's driver, 580 or newer")
    assert by_subject(diagnosis._gpus(expected=False))["driver"].state == NOTE


@pytest.mark.parametrize(("cuda", "state"), [(12080, PROBLEM), (13000, OK)])
def test_an_old_driver_is_a_problem(monkeypatch: pytest.MonkeyPatch, cuda: int, state: str) -> None:
    patch_machine(monkeypatch, ("0000:01:00.0",), _driver.Driver(GPU, cuda, "570.1"))
    found = by_subject(diagnosis._gpus(expected=True))
    assert found["driver"].state == state
    assert found["GPU 0"].detail == "H200"


@pytest.mark.parametrize(
    ("outcome", "usable"),
    [
        (selftest.Outcome(simulated=False), True),
        (selftest.Outcome(simulated=False, error="no kernel image"), False),
        (selftest.Outcome(simulated=True), False),
        (None, False),
    ],
)
def test_an_expected_gpu_that_cannot_be_used_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, outcome: selftest.Outcome | None, usable: bool
) -> None:
    patch_machine(monkeypatch, ("0000:01:00.0",), _driver.Driver(GPU, 13000))
    monkeypatch.setattr(diagnosis, "_provider_findings", lambda _: ([], [outcome] if outcome else []))
    monkeypatch.setattr(vendor, "look_up", lambda _: vendor.Status(True))
    problems = {
        found.subject for found in diagnosis.diagnose("cuda") if found.state == PROBLEM and found.section == "provider"
    }
    assert problems == (set() if usable else {"GPU"})


def test_features_follow_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_host, "version", lambda: (1, 24))
    old = by_subject(diagnosis._host_findings())
    monkeypatch.setattr(_host, "version", lambda: (1, 25))
    new = by_subject(diagnosis._host_findings())
    assert (old["OrtEp::Sync"].state, old["OrtEp::Sync"].advice) == (NOTE, "needs ONNX Runtime 1.25")
    assert old["OrtEp::Sync"].detail.startswith("off: ")
    assert (new["OrtEp::Sync"].state, new["OrtEp::Sync"].detail) == (OK, "on")


def test_a_host_that_is_too_old_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_host, "version", lambda: (1, 23))
    found = by_subject(diagnosis._host_findings())["ONNX Runtime"]
    assert (found.state, found.advice) == (PROBLEM, "pip install 'onnxruntime>=1.24'")


def test_two_distributions_in_one_folder_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(name: str, folder: Path) -> SimpleNamespace:
        return SimpleNamespace(name=name, version="1.31.1", locate_file=lambda path: folder / path)

    here = _host.folder().parent
    entries = [entry("onnxruntime", here), entry("onnxruntime_gpu", here), entry("onnxruntime", Path("/elsewhere"))]
    monkeypatch.setattr(_host.importlib.metadata, "distributions", lambda: [*entries, entry("numpy", here)])
    assert _host.distributions() == ["onnxruntime 1.31.1", "onnxruntime_gpu 1.31.1"]
    assert by_subject(diagnosis._host_findings())["distributions"].state == NOTE


def test_cards_are_read_from_the_pci_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, vendor_id, kind in (
        ("0000:00:01.0", "0x8086", "0x030000"),
        ("0000:01:00.0", "0x10de", "0x030200"),
        ("0000:01:00.1", "0x10de", "0x040300"),  # the card's sound device
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor_id}\n")
        (tmp_path / name / "class").write_text(f"{kind}\n")
    monkeypatch.setattr(_driver, "_PCI", tmp_path)
    monkeypatch.setattr(_driver, "_DEVICE_FILES", ())
    assert _driver.hardware() == ["0000:01:00.0"]
    monkeypatch.setattr(_driver, "_PCI", tmp_path / "none")
    assert _driver.hardware() == []
    monkeypatch.setattr(_driver, "_DEVICE_FILES", (str(tmp_path),))
    assert _driver.hardware() == [str(tmp_path)]


LIBRARY = vendor.VendorLibrary(
    "cuX", "libcux.so.9", "version", 90100, ("nvidia/cux/lib",), "pip install x", "x", "slow"
)


def fake_library(monkeypatch: pytest.MonkeyPatch, folder: Path, number: int | None) -> Path:
    """A file that opens as a library of a version; None: it does not open."""
    path = folder / LIBRARY.soname
    path.touch()

    def version() -> int:
        assert number is not None
        return number

    def open_library(name: str) -> SimpleNamespace:
        if name != str(path) or number is None:
            raise OSError("invalid ELF header")
        return SimpleNamespace(version=version)

    monkeypatch.setattr(vendor.ctypes, "CDLL", open_library)
    monkeypatch.setenv(vendor.PATH_VARIABLE, f"/nowhere:{folder}")
    return path


@pytest.mark.parametrize(
    ("number", "expected", "state"),
    [
        (90100, vendor.Status(True, "{}", "9.1.0", vendor.PATH_VARIABLE), OK),
        (90000, vendor.Status(False, "{}", "9.0.0", f"{vendor.PATH_VARIABLE}: version 9.0.0 is too old"), NOTE),
        (None, vendor.Status(False, "{}", "", f"{vendor.PATH_VARIABLE}: does not load: invalid ELF header"), NOTE),
    ],
)
def test_a_vendor_library_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None, expected: vendor.Status, state: str
) -> None:
    path = fake_library(monkeypatch, tmp_path, number)
    found = vendor.look_up(LIBRARY)
    assert vars(found) == {**vars(expected), "path": str(path)}
    finding = diagnosis._vendor_finding("s", LIBRARY, {}, expected=True)
    assert finding.state == state
    assert str(path) in finding.detail


@pytest.mark.parametrize(("without", "state"), [("", PROBLEM), ("slow", NOTE)])
def test_a_missing_library_says_what_is_wanted(monkeypatch: pytest.MonkeyPatch, without: str, state: str) -> None:
    monkeypatch.delenv(vendor.PATH_VARIABLE, raising=False)
    library = vendor.VendorLibrary("cuX", "libcux.so.9", "version", 90100, (), "pip install x", "x", without)
    found = diagnosis._vendor_finding("s", library, {}, expected=True)
    assert (found.state, found.detail) == (state, "libcux.so.9, 9.1.0 or newer: not found")
    assert found.advice == ("pip install x; without it, slow" if without else "pip install x; needed")
    assert diagnosis._vendor_finding("s", library, {}, expected=False).state == NOTE


def test_the_plug_ins_own_words_come_first() -> None:
    entry = {"name": "cuX", "found": True, "path": "/l/libcux.so.9", "version": "9.2.0", "status": "Python wheels"}
    found = diagnosis._vendor_finding("s", LIBRARY, {"cuX": entry}, expected=True)
    assert (found.state, found.detail) == (OK, "9.2.0 in /l/libcux.so.9 (Python wheels)")


def test_gates_are_those_of_the_library() -> None:
    text = (SOURCE / "abi" / "api_version.h").read_text()
    numbers = dict(re.findall(r"constexpr uint32_t (k\w+) = (\d+);", text))
    rows = re.findall(r'\{(k\w+), "([^"]+)",\s*"([^"]+)"\}', text)
    assert rows, "kHostFeatures has no rows"
    assert [(name, int(numbers[gate]), without) for gate, name, without in rows] == [
        (feature.name, feature.since, feature.without) for feature in _host.FEATURES
    ]
    assert int(numbers["kMinimumApiVersion"]) == _host.OLDEST[1]


def test_vendor_libraries_are_those_of_the_library() -> None:
    text = "".join(
        (SOURCE / "lib" / "cuda" / f"{name}_api.cc").read_text() for name in ("cublaslt", "cudnn", "cupti", "nccl")
    )
    specs = re.findall(
        r'LibrarySpec k\w+\{"(\w+)",\s*"([^"]+)",\s*(?:"(\w+)"|nullptr),\s*(\d+),\s*k\w+,\s*"([^"]+)"\}', text
    )
    folders = [tuple(re.findall(r'"([^"]+)"', found)) for found in re.findall(r"k\w+Folders\[\] = \{([^}]*)\}", text)]
    assert [(*spec, found) for spec, found in zip(specs, folders, strict=True)] == [
        (entry.name, entry.soname, entry.version_symbol, str(entry.minimum), entry.remedy, entry.folders)
        for entry in vendor.LIBRARIES
    ]


@pytest.fixture
def environment(test_library: str) -> dict[str, str]:
    cleared = ("CUDA_VISIBLE_DEVICES", "CUDAEP_SIM_DEVICES")
    found = command.child_environment(test_library)
    return {name: value for name, value in found.items() if name not in cleared}


def findings_of(outcome: command.Outcome) -> dict[str, dict[str, str]]:
    return {finding["subject"]: finding for finding in outcome.json["findings"]}


def test_doctor_on_this_machine(environment: dict[str, str]) -> None:
    found = command.invoke({**environment, "CUDAEP_SIM_DEVICES": "2"}, "doctor", "--json")
    assert (found.code, found.json["ok"]) == (0, True), found
    subjects = findings_of(found)
    assert subjects["self-test 0"]["state"] == "ok"
    if "sim" in Path(environment["ORT_CUDA_EP_LIBRARY"]).name:
        assert subjects["device 1"]["detail"].startswith("simulated, not a GPU, PCI 00000000:02:00.0, 16.0 GiB")
        assert subjects["self-test 1"]["state"] == "ok"
        assert subjects["CUDAEP_SIM_DEVICES"]["detail"] == "'2': sets up the simulated device"


def test_doctor_names_the_device_that_was_left_out(environment: dict[str, str]) -> None:
    if "sim" not in Path(environment["ORT_CUDA_EP_LIBRARY"]).name:
        pytest.skip("the library under test is for GPUs")
    settings = {"CUDAEP_SIM_DEVICES": "2", "CUDAEP_SIM_WITHOUT_CODE": "0"}
    found = command.invoke({**environment, **settings}, "doctor", "--device", "sim", "--json")
    assert (found.code, found.json["ok"]) == (0, True), found
    subjects = findings_of(found)
    assert subjects["warning"]["state"] == "note"
    assert subjects["warning"]["detail"].startswith(
        "CUDA ordinal 0 is left out: this build holds no code for Simulated CUDA device 0"
    )
    assert "PCI 00000000:02:00.0" in subjects["device 0"]["detail"]  # the first one that the host has
    assert "device 1" not in subjects


def test_doctor_wants_the_gpu_it_was_asked_for(environment: dict[str, str]) -> None:
    if "sim" not in Path(environment["ORT_CUDA_EP_LIBRARY"]).name:
        pytest.skip("the library under test is for GPUs")
    found = command.invoke(environment, "doctor", "--device", "cuda", "--json")
    assert (found.code, found.json["ok"]) == (1, False)
    subjects = findings_of(found)
    assert subjects["GPU"]["state"] == "problem"
    assert subjects["GPU"]["advice"]


def test_doctor_prints(environment: dict[str, str]) -> None:
    found = command.invoke({**environment, "ORT_CUDA_EP_LIBRARY": "/nowhere.so"}, "doctor", "--device", "sim")
    assert found.code == 1
    lines = [line.rstrip() for line in found.out.splitlines()]
    assert lines[-1] == "1 problem"
    problem = next(line for line in lines if line.startswith(" problem"))
    assert "ORT_CUDA_EP_LIBRARY names /nowhere.so, which is not a file" in problem
