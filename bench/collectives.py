"""Bus bandwidth of AllReduce over ranks, one process each, beside torch.distributed over NCCL in the same processes.

    NCCL_NVLS_ENABLE=0 python -m bench.collectives [--library PATH] [--ranks 2] [--sizes 1,16,256] [--json FILE]

Sizes are MiB of fp16 a rank. A model is a chain of AllReduce nodes, so that what a Run costs beside them counts little;
PyTorch queues as many. Bandwidth is NCCL's "busbw": 2 (n - 1) / n times the bytes, over the time. On the simulated
device the numbers say nothing; the default sizes there only show that it runs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session.collective_models import DOMAIN, group, serialized
from tests.session.host import EP_NAME

ROOT = Path(__file__).resolve().parent.parent
CHAIN, ROUNDS = 20, 15
NVIDIA = 0x10DE


def default_library() -> Path:
    """Built last for GPUs, or for the simulated device."""
    for build, name in (("cuda", "libort_cuda_ep.so"), ("sim", "libort_cuda_ep_sim.so")):
        if (path := ROOT / "build" / build / "lib" / name).is_file():
            return path
    raise SystemExit("no library is built: name one with --library")


def chain_model() -> bytes:
    """`CHAIN` maxima, which leave the values what they are."""
    nodes = [
        helper.make_node("AllReduce", [f"v{i}"], [f"v{i + 1}"], name=f"n{i}", domain=DOMAIN, reduction="max")
        for i in range(CHAIN)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, ["n"]) for name in ("v0", f"v{CHAIN}")]
    return serialized(helper.make_graph(nodes, "chain", ends[:1], ends[1:]))


def median_seconds(call: Any) -> float:
    """Of one operation, without the first rounds."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) / CHAIN)
    return statistics.median(times[ROUNDS // 3 :])


def ours(rank: int, ranks: int, file: str, sizes: list[float]) -> list[float]:
    """Seconds of one AllReduce by size. Raises AssertionError for a wrong result."""
    devices = [device for device in ort.get_ep_devices() if device.ep_name == EP_NAME]
    ordinal = rank % len(devices)  # simulated processes share numbers, not devices
    settings = ort.SessionOptions()
    settings.add_provider_for_devices([devices[ordinal]], group(rank, ranks, file))
    made = ort.InferenceSession(chain_model(), settings, enable_fallback=0)
    found = []
    for size in sizes:
        count = int(size * 2**19)
        x = ort.OrtValue.ortvalue_from_numpy(np.full(count, rank + 1, np.float16), "gpu", ordinal, NVIDIA)
        y = ort.OrtValue.ortvalue_from_numpy(np.zeros(count, np.float16), "gpu", ordinal, NVIDIA)
        binding = made.io_binding()
        binding.bind_ortvalue_input("v0", x)
        binding.bind_ortvalue_output(f"v{CHAIN}", y)
        found.append(median_seconds(lambda binding=binding: made.run_with_iobinding(binding)))
        assert (y.numpy() == ranks).all(), "wrong result"
    return found


def torchs(rank: int, ranks: int, file: str, sizes: list[float]) -> list[float] | None:
    """The same by torch.distributed; None without PyTorch or a GPU for each rank."""
    try:
        import torch
        import torch.distributed as distributed
    except ImportError:
        return None
    if torch.cuda.device_count() < ranks:
        return None
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method=f"file://{file}.torch", rank=rank, world_size=ranks)
    found = []
    for size in sizes:
        x = torch.full((int(size * 2**19),), rank + 1, dtype=torch.float16, device="cuda")

        def call(x: Any = x) -> None:
            for _ in range(CHAIN):
                distributed.all_reduce(x, op=distributed.ReduceOp.MAX)
            torch.cuda.synchronize()

        found.append(median_seconds(call))
    distributed.destroy_process_group()
    return found


def work(rank: int, ranks: int, file: str, sizes: list[float], library: str, answers: Any) -> None:
    """A rank's process."""
    ort.register_execution_provider_library(EP_NAME, library)
    answers.put((rank, ours(rank, ranks, file, sizes), torchs(rank, ranks, file, sizes)))


def bandwidth(seconds: float, size: float, ranks: int) -> float:
    """GB/s."""
    return 2 * (ranks - 1) / ranks * size * 2**20 / seconds / 1e9


def measure(library: str, ranks: int, sizes: list[float]) -> list[dict[str, float | None]]:
    """A row for each size, by the slowest rank."""
    context = multiprocessing.get_context("spawn")
    answers: Any = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (ranks, str(Path(folder) / "group"), sizes, library, answers)
        children = [context.Process(target=work, args=(rank, *arguments)) for rank in range(ranks)]
        for child in children:
            child.start()
        found = [answers.get(timeout=600) for _ in children]
        for child in children:
            child.join()
    rows = []
    for i, size in enumerate(sizes):
        row: dict[str, float | None] = {"mib": size, "ours_gb_s": None, "torch_gb_s": None}
        for name, column in (("ours_gb_s", 1), ("torch_gb_s", 2)):
            if all(answer[column] is not None for answer in found):
                row[name] = bandwidth(max(answer[column][i] for answer in found), size, ranks)
        rows.append(row)
    return rows


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", help="MiB, with commas between")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    library = (arguments.library or default_library()).resolve()
    default = "0.01,0.1" if "_sim" in library.name else "1,4,16,64,256,1024"
    sizes = [float(size) for size in (arguments.sizes or default).split(",")]
    rows = measure(str(library), arguments.ranks, sizes)
    print(f"{arguments.ranks} ranks, {library.name}, GB/s of bus bandwidth")
    for row in rows:
        torch_text = "-" if row["torch_gb_s"] is None else f"{row['torch_gb_s']:.1f}"
        print(f"{row['mib']:8g} MiB  {row['ours_gb_s']:8.1f}  torch.distributed {torch_text:>8}")
    if arguments.json is not None:
        arguments.json.write_text(
            json.dumps({"ranks": arguments.ranks, "library": library.name, "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
