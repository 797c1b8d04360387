"""What goes wrong on servers (docs/guides/production.md), each in a process of its own."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import child
import pytest
from command import VERSIONS, child_environment, invoke

# Prints the result of a Run; plans go into the file that is the first argument, or the default one for "".
RUN = """
import json, resource, sys
import numpy as np
import ort_cuda_ep
from ort_cuda_ep import selftest

BEFORE
options = {"plan_cache.path": sys.argv[1]} if sys.argv[1] else {}
session = ort_cuda_ep.session(selftest.model(), provider_options=options)
for _ in range(3):
    y = session.run(None, {"x": np.ones((1, 3, 8, 8), np.float32)})[0]
del session
print(json.dumps(float(y.sum())))
"""
SUM = -444.46777

# New plans, and so a new file, for ever. A line says that the file is being written from now on.
WRITE = """
import sys
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import ort_cuda_ep

def model(channels):
    weights = numpy_helper.from_array(np.ones((channels, 3, 3, 3), np.float32), "w")
    image, maps = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "conv", [image], [maps], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

for channels in range(1, 10_000):
    session = ort_cuda_ep.session(model(channels), provider_options={"plan_cache.path": sys.argv[1]})
    session.run(None, {"x": np.ones((1, 3, 8, 8), np.float32)})
    del session
    if channels == 1:
        print("writing", flush=True)
"""


@pytest.fixture(params=VERSIONS)
def environment(request: pytest.FixtureRequest, test_library: str, tmp_path: Path) -> dict[str, str]:
    if not test_library.endswith("_sim.so"):
        pytest.skip("the simulated device is what these are told about")
    return child_environment(test_library, request.param)


def run(environment: dict[str, str], plans: object, before: str = "") -> list[str]:
    """The lines that the log has of plan files after three right Runs."""
    ended = child.run(environment, RUN.replace("BEFORE", before), plans)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert abs(float(ended.stdout.splitlines()[-1]) - SUM) < 1e-2
    return [line for line in ended.stderr.splitlines() if "plan file" in line]


def in_namespace(mount: str, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A command that sees other mounts; skips the test where this process may make none."""
    probe = ["unshare", "--mount", "sh", "-c", mount]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("this process may not mount")
    wrapped = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh", *command]
    return subprocess.run(wrapped, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_plans_are_kept_where_nothing_is_wrong(environment: dict[str, str], tmp_path: Path) -> None:
    plans = tmp_path / "deep" / "plans"
    assert run(environment, plans) == []
    kept = plans.read_bytes()
    assert len(kept) > 100
    assert run(environment, plans) == []
    assert plans.read_bytes() == kept


def test_a_full_disk_is_a_warning(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = [sys.executable, "-c", RUN.replace("BEFORE", ""), str(folder / "plans")]
    ended = in_namespace(f"mount -t tmpfs -o size=4k none {folder} && head -c 4096 /dev/zero > {folder}/full", command,
                         environment)  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("plan file: cannot ") == 1
    assert "No space left on device" in ended.stderr


def test_a_quota_is_a_warning(environment: dict[str, str], tmp_path: Path) -> None:
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))"
    warnings = run(environment, tmp_path / "plans", limit)
    assert len(warnings) == 1 and "plan file: cannot write" in warnings[0] and "File too large" in warnings[0], warnings
    assert [path.name for path in tmp_path.iterdir()] == ["plans.lock"]


def test_a_read_only_folder_is_a_warning(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = [sys.executable, "-c", RUN.replace("BEFORE", ""), str(folder / "plans")]
    ended = in_namespace(f"mount -t tmpfs -o ro none {folder}", command, environment)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("plan file: cannot ") == 1
    assert "Read-only file system" in ended.stderr


@pytest.mark.parametrize(
    ("path", "text"), [("/proc/no/plans", "cannot open /proc/no/plans.lock"), ("/dev/full", "is no regular file")]
)
def test_a_place_for_no_files_is_a_warning(environment: dict[str, str], path: str, text: str) -> None:
    warnings = run(environment, path)
    assert len(warnings) == 1 and text in warnings[0], warnings


def test_a_file_of_another_version_is_replaced(environment: dict[str, str], tmp_path: Path) -> None:
    plans = tmp_path / "plans"
    assert run(environment, plans) == []
    ours = plans.read_bytes()
    for old, text in ((ours.replace(b"plans 2", b"plans 1", 1), "is of another version of the library"),
                      (ours[:-20], "is damaged"), (b"", "is damaged")):  # fmt: skip
        plans.write_bytes(old)
        warnings = run(environment, plans)
        assert len(warnings) == 1 and text in warnings[0] and "written anew" in warnings[0], warnings
        assert plans.read_bytes() == ours


def test_a_process_killed_while_it_writes_leaves_a_whole_file(environment: dict[str, str], tmp_path: Path) -> None:
    plans = tmp_path / "plans"
    for round_number in range(4):
        command = [sys.executable, "-c", WRITE, str(plans)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == "writing\n"
            time.sleep(0.05 + 0.0237 * round_number)
            writer.send_signal(signal.SIGKILL)
    (tmp_path / "plans.1.0.new").write_bytes(b"half of a file, as a kill at the worst moment leaves it")
    before = plans.read_bytes()
    assert run(environment, plans) == []  # no word of damage
    assert len(plans.read_bytes()) > len(before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plans", "plans.lock"]


def test_a_container_without_sys_works(environment: dict[str, str]) -> None:
    doctor = [sys.executable, "-m", "ort_cuda_ep", "doctor", "--json"]
    ended = in_namespace("mount -t tmpfs none /sys && test ! -e /sys/class", doctor, environment)
    assert ended.returncode == 0, ended.stderr
    assert '"self-test 0"' in ended.stdout


def test_a_process_without_a_home_works(environment: dict[str, str]) -> None:
    bare = {key: value for key, value in environment.items() if key not in ("HOME", "XDG_CACHE_HOME")}
    assert run(bare, "") == []


def test_a_lost_device_is_what_doctor_says(environment: dict[str, str]) -> None:
    found = invoke({**environment, "CUDAEP_SIM_LOSE_DEVICE_AT": "2"}, "doctor", "--json")
    assert found.code == 1
    problems = [entry for entry in found.json["findings"] if entry["state"] == "problem"]
    assert [entry["subject"] for entry in problems] == ["self-test 0"]
    assert "DEVICE_LOST" in problems[0]["detail"]


LOST = """
import json, sys
import numpy as np
import ort_cuda_ep
from ort_cuda_ep import selftest

X = {"x": np.ones((1, 3, 8, 8), np.float32)}
session = ort_cuda_ep.session(selftest.model())
errors = []
for action in [lambda: session.run(None, X)] * 30 + [lambda: ort_cuda_ep.session(selftest.model()).run(None, X)]:
    try:
        action()
    except Exception as error:
        errors.append(str(error))
print(json.dumps({"errors": errors, "statistics": ort_cuda_ep.statistics()["devices"][0]["sessions"]}))
"""


def test_later_calls_tell_the_first_cause_of_a_loss(environment: dict[str, str]) -> None:
    found = child.result({**environment, "CUDAEP_SIM_LOSE_DEVICE_AT": "20"}, LOST)
    assert 2 < len(found["errors"]) < 31
    for text in found["errors"]:
        assert "DEVICE_LOST" in text and "is number 20: CUDAEP_SIM_LOSE_DEVICE_AT" in text
    assert found["statistics"] >= 1  # still told
