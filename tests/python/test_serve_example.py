"""What a replica of examples/serve answers, without Ray: `make serve-check` has the rest."""

from pathlib import Path

import pytest
from child import result
from command import ROOT, child_environment

BEGIN = """
import io, json, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from metrics import render
from model import classifier
from replica import Answer, Replica

open("model.onnx", "wb").write(classifier())

def body(sample):
    file = io.BytesIO()
    np.save(file, sample)
    return file.getvalue()

def image(height, width, seed=0):
    return np.random.default_rng(seed).standard_normal((3, height, width), np.float32)

def made(**options):
    return Replica("model.onnx", "sim", options)
"""

ANSWERS = (
    BEGIN
    + """
import onnxruntime as ort
replica = made()
samples = [image(32, 32, 1), image(16, 24, 2), image(32, 32, 3)]
cpu = ort.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
expected = [cpu.run(None, {"x": sample[None]})[0][0] for sample in samples]
answers = replica.predict_batch(samples)
close = [bool(np.allclose(json.loads(a.text)["scores"], e, atol=1e-5)) for a, e in zip(answers, expected)]
bad = [b"", b"hello", body(samples[0])[:100], body(image(3, 3).astype(np.float64))]
bad += [body(np.zeros(shape, np.float32)) for shape in ((3, 4), (3, 0, 4))]
archive, vast = io.BytesIO(), io.BytesIO()
np.savez(archive, x=samples[0])
np.lib.format.write_array_header_1_0(vast, {"descr": "<f4", "fortran_order": False, "shape": (1 << 48,)})
bad += [archive.getvalue(), archive.getvalue()[:100], vast.getvalue()]
refused = [replica.read(given) for given in bad]
replica.check()
read = replica.read(body(samples[1]))
text = render({"a": replica.figures(), "b": replica.figures()})
print(json.dumps({"status": [a.status for a in answers], "close": close, "batches": replica.batches,
                  "refused": [a.status for a in refused], "texts": [a.text for a in refused],
                  "read": bool(np.array_equal(read, samples[1])), "problems": replica.problems(), "metrics": text}))
"""
)

MEMORY = (
    BEGIN
    + """
once = made(**{"debug.fail_allocation": "10"})
halves = [answer.status for answer in once.predict_batch([image(32, 32, i) for i in range(4)])]
small = made(gpu_mem_limit=str(64 << 20))
large = small.predict_batch([image(2400, 2400), image(32, 32)])
print(json.dumps({"halves": halves, "batches": once.batches, "large": [a.status for a in large],
                  "answers": small.answers}))
"""
)

LOST = (
    BEGIN
    + """
replica = made()
statuses = [replica.predict_batch([image(32, 32)])[0] for _ in range(40)]
try:
    replica.check()
    health = ""
except RuntimeError as error:
    health = str(error)
print(json.dumps({"status": [a.status for a in statuses], "last": statuses[-1].text, "health": health,
                  "problems": replica.problems()}))
"""
)


@pytest.fixture
def environment(test_library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    if not test_library.endswith("_sim.so"):
        pytest.skip("one process of the example is on simulated devices here")
    monkeypatch.chdir(tmp_path)
    return child_environment(test_library, ORT_CUDA_EP_CACHE=str(tmp_path))


def test_answers_are_the_cpu_providers_and_bad_requests_are_refused(environment: dict[str, str]) -> None:
    found = result(environment, ANSWERS, ROOT / "examples" / "serve")
    assert found["status"] == [200] * 3 and found["close"] == [True] * 3
    assert found["batches"] == 2  # of two shapes
    assert found["refused"] == [400] * 9
    parts = ("no .npy", "no .npy", "no .npy", "float32, not float64", "[3, 4]", "[3, 0, 4]", *["no .npy"] * 3)
    for text, part in zip(found["texts"], parts, strict=True):
        assert part in text
    assert found["read"] and found["problems"] == []
    lines = found["metrics"].splitlines()
    for name in ("a", "b"):
        assert f'serve_answers_total{{replica="{name}",status="400"}} 9' in lines
        assert f'ort_cuda_ep_sessions{{replica="{name}",device="0"}} 1' in lines
    assert len({line.split(" ")[2] for line in lines if line.startswith("# TYPE")}) == sum(
        line.startswith("# TYPE") for line in lines
    )


def test_memory_that_does_not_suffice_costs_no_other_request(environment: dict[str, str]) -> None:
    found = result(environment, MEMORY, ROOT / "examples" / "serve")
    assert found["halves"] == [200] * 4
    assert found["batches"] == 3  # all, then its halves
    assert found["large"] == [503, 200]
    assert found["answers"] == {"503": 1, "200": 1}


def test_a_lost_device_turns_health_red(environment: dict[str, str]) -> None:
    found = result({**environment, "CUDAEP_SIM_LOSE_DEVICE_AT": "60"}, LOST, ROOT / "examples" / "serve")
    assert found["status"][0] == 200 and found["status"][-1] == 503
    assert sorted(found["status"]) == found["status"]  # once lost, lost for good
    for text in (found["last"], found["health"], found["problems"][0]["detail"]):
        assert "DEVICE_LOST" in text and "is number 60: CUDAEP_SIM_LOSE_DEVICE_AT" in text
