"""Load for examples/serve/server.py: clients that wait for each answer, every answer compared with the CPU provider.

    python examples/serve/load.py --seconds 60 --clients 16

Prints throughput, latencies and errors; ends with 1 where there was an error: another status than 200, no answer, or
scores that differ from the CPU provider's.
"""

import argparse
import asyncio
import collections
import io
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import onnxruntime as ort
from model import classifier

SAMPLES = 64
_SIZES = ((32, 32), (48, 32))  # of images, where the model takes any


@dataclass
class Results:
    """What the clients have seen."""

    seconds: list[float] = field(default_factory=list)
    errors: collections.Counter[str] = field(default_factory=collections.Counter)

    def summary(self, elapsed: float) -> dict[str, Any]:
        """Figures for people and programs; latencies in milliseconds."""
        ordered = sorted(self.seconds)

        def percentile(part: float) -> float:
            return round(1e3 * ordered[min(len(ordered) - 1, int(part * len(ordered)))], 2) if ordered else 0.0

        return {
            "requests": len(ordered),
            "seconds": round(elapsed, 2),
            "requests_per_second": round(len(ordered) / elapsed, 1),
            "p50_ms": percentile(0.5),
            "p99_ms": percentile(0.99),
            "most_ms": percentile(1.0),
            "errors": sum(self.errors.values()),
            "error_texts": dict(self.errors.most_common(5)),
        }


def make_requests(model: bytes) -> list[tuple[bytes, dict[str, np.ndarray]]]:
    """Bodies of requests, each with the CPU provider's outputs."""
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    entry = session.get_inputs()[0]
    rng = np.random.default_rng(0)
    made = []
    for i in range(SAMPLES):
        open_sizes = iter(_SIZES[i % len(_SIZES)])
        shape = [size if isinstance(size, int) else next(open_sizes, 16) for size in entry.shape[1:]]
        sample = rng.standard_normal(shape, np.float32)
        expected = session.run(names, {entry.name: sample[None]})
        file = io.BytesIO()
        np.save(file, sample)
        made.append((file.getvalue(), {name: value[0] for name, value in zip(names, expected, strict=True)}))
    return made


def difference(text: str, expected: dict[str, np.ndarray]) -> str:
    """What is wrong with an answer; empty where nothing is."""
    found = json.loads(text)
    for name, value in expected.items():
        if not np.allclose(np.asarray(found[name], value.dtype), value, rtol=1e-3, atol=1e-4):
            return f"{name} differs from the CPU provider's"
    return ""


async def client(url: str, first: int, requests: list[Any], end: float, results: Results) -> None:
    """One request after another until the end, on a connection of its own."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        at = first
        while time.monotonic() < end:
            body, expected = requests[at % len(requests)]
            at += 1
            start = time.perf_counter()
            try:
                async with session.post(url + "/predict", data=body) as response:
                    text = await response.text()
            except (TimeoutError, aiohttp.ClientError) as error:
                results.errors[f"no answer: {type(error).__name__} {error}"] += 1
                await asyncio.sleep(0.1)
                continue
            results.seconds.append(time.perf_counter() - start)
            wrong = f"{response.status}: {text[:200]}" if response.status != 200 else difference(text, expected)
            if wrong:
                results.errors[wrong] += 1


async def drive(url: str, requests: list[Any], clients: int, seconds: float) -> dict[str, Any]:
    """The summary of `seconds` under load."""
    results, start = Results(), time.monotonic()
    tasks = [client(url, 7 * i, requests, start + seconds, results) for i in range(clients)]
    await asyncio.gather(*tasks)
    return results.summary(time.monotonic() - start)


def main() -> int:
    """Ends with 1 where there was an error, or no request at all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", help="the server's; the small classifier without it")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    arguments = parser.parse_args()
    model = Path(arguments.model).read_bytes() if arguments.model else classifier()
    found = asyncio.run(drive(arguments.url, make_requests(model), arguments.clients, arguments.seconds))
    if arguments.json:
        print(json.dumps(found))
    else:
        print("{requests} requests in {seconds} s: {requests_per_second}/s, p50 {p50_ms} ms, p99 {p99_ms} ms, most "
              "{most_ms} ms, {errors} errors".format(**found))  # fmt: skip
        for text, count in found["error_texts"].items():
            print(f"  {count} times: {text}")
    return 1 if found["errors"] or not found["requests"] else 0


if __name__ == "__main__":
    sys.exit(main())
