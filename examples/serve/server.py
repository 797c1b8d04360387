"""Serves an ONNX model with Ray Serve: one replica a GPU, requests in batches, health, metrics of every replica.

    python examples/serve/server.py --model model.onnx --replicas auto

The same command runs where there is no GPU: replicas are then on simulated devices. Routes: POST /predict with one
sample as an .npy file, GET /health, GET /metrics. docs/guides/serving.md explains all of it.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# By default Ray Serve kills a proxy that takes more than 5 s to begin, as it does on a busy machine, again and again.
os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "50")
# Replicas import this folder's modules; Ray hands the variable on to its workers.
_FOLDER = str(Path(__file__).resolve().parent)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_FOLDER, os.environ.get("PYTHONPATH"))))

import ort_cuda_ep  # noqa: E402
import ray  # noqa: E402
from metrics import render  # noqa: E402
from model import classifier  # noqa: E402
from ray import serve  # noqa: E402
from replica import Answer, Replica  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import JSONResponse, PlainTextResponse, Response  # noqa: E402

_log = logging.getLogger("ray.serve")
_REPORT_SECONDS = 1.0
_FORGET_SECONDS = 10.0
_SIMULATED = "simulated_gpu"  # the resource that stands for a simulated device


@serve.deployment(num_replicas=1, ray_actor_options={"num_cpus": 0})
class Board:
    """What the replicas last said of themselves, so that one scrape has all of them and takes no GPU's time."""

    def __init__(self) -> None:
        self._figures: dict[str, tuple[float, dict[str, Any]]] = {}

    def report(self, name: str, figures: dict[str, Any]) -> None:
        self._figures[name] = (time.monotonic(), figures)

    def __call__(self) -> Response:
        oldest = time.monotonic() - _FORGET_SECONDS
        self._figures = {name: entry for name, entry in self._figures.items() if entry[0] > oldest}
        text = render({name: figures for name, (_, figures) in sorted(self._figures.items())})
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


@serve.deployment(max_ongoing_requests=64, max_queued_requests=1024, health_check_period_s=5)
class Classifier:
    """A replica behind HTTP."""

    def __init__(self, model: str, device: str, options: dict[str, str], board: Any) -> None:
        self._replica = Replica(model, device, options)
        self._board = board
        # One thread has all work of the device, since hosts give each thread a stream with memory of its own. Checks of
        # health wait there too, so a device that hangs is found out.
        self._thread = ThreadPoolExecutor(1)
        self._name = serve.get_replica_context().replica_id.unique_id
        self._reports = asyncio.get_running_loop().create_task(self._report())

    async def _on_device(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def _report(self) -> None:
        while True:
            try:
                await self._board.report.remote(self._name, self._replica.figures())
            except Exception as error:  # the board is made anew, for one; the next report finds it
                _log.warning("no report of %s: %s", self._name, error)
            await asyncio.sleep(_REPORT_SECONDS)

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.005)
    async def _predict(self, samples: list[Any]) -> list[Answer]:
        return await self._on_device(self._replica.predict_batch, samples)

    async def check_health(self) -> None:
        """Asked by Ray Serve, which replaces a replica that raises three times."""
        await self._on_device(self._replica.check)

    async def __call__(self, request: Request) -> Response:
        if request.url.path == "/health":
            problems = await self._on_device(self._replica.problems)
            return JSONResponse({"ok": not problems, "problems": problems}, 503 if problems else 200)
        if request.url.path != "/predict":
            return PlainTextResponse(f"there is no {request.url.path}: /predict, /health and /metrics are", 404)
        if request.method != "POST":
            return PlainTextResponse("/predict takes POST", 405, {"Allow": "POST"})
        sample = self._replica.read(await request.body())
        answer = sample if isinstance(sample, Answer) else await self._predict(sample)
        kind = "application/json" if answer.status == 200 else "text/plain"
        headers = {"Retry-After": "1"} if answer.status == 503 else None
        return Response(answer.text, answer.status, headers, media_type=kind)


def count_replicas(wanted: str, simulated: bool) -> int:
    """`auto` is one a GPU, or two on simulated devices."""
    if wanted != "auto":
        return int(wanted)
    return 2 if simulated else int(ray.cluster_resources()["GPU"])


def main() -> int:
    """Serves until SIGTERM or SIGINT, then answers what it has accepted and ends with 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="an ONNX file with one input; a small classifier without it")
    parser.add_argument("--replicas", default="auto", help="a number, or auto: one a GPU")
    parser.add_argument("--device", default="auto", choices=("auto", "cuda", "sim"))
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="a provider option")
    arguments = parser.parse_args()
    options = dict(text.split("=", 1) for text in arguments.option)
    # Only a look at the machine: the library is registered in the replicas' processes.
    simulated = ort_cuda_ep.get_library_path(arguments.device).endswith("_sim.so")
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model
        if model is None:
            model = str(Path(folder) / "classifier.onnx")
            Path(model).write_bytes(classifier())
        ray.init(address="local", include_dashboard=False, log_to_driver=False,
                 resources={_SIMULATED: 64} if simulated else None)  # fmt: skip
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):  # after Ray, which has handlers of its own
            signal.signal(number, lambda *_: stop.set())
        replicas = count_replicas(arguments.replicas, simulated)
        device = {"resources": {_SIMULATED: 1}} if simulated else {"num_gpus": 1}
        serve.start(http_options={"host": arguments.host, "port": arguments.port})
        board = serve.run(Board.bind(), name="metrics", route_prefix="/metrics")
        deployment = Classifier.options(num_replicas=replicas, ray_actor_options={"num_cpus": 0, **device})
        bound = deployment.bind(str(Path(model).resolve()), "sim" if simulated else "cuda", options, board)
        serve.run(bound, name="model", route_prefix="/")
        if not stop.is_set():
            print(f"ready: {replicas} replicas at http://{arguments.host}:{arguments.port}", flush=True)
        stop.wait()
        serve.delete("model")  # returns when its replicas have answered what they had
        serve.shutdown()
        ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
