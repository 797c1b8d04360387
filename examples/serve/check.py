"""Serves the small classifier under load and checks all that docs/guides/serving.md says of this example.

    python examples/serve/check.py --seconds 60

Needs the packages of requirements.txt and this project's. Prints one line a check, ends with 1 where one fails.
"""

import argparse
import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
MARK = "ORT_CUDA_EP_SERVE_CHECK"  # in the environment of all processes that the server starts
LIMIT_BYTES = 64 << 20
READY_SECONDS = 240  # on a busy machine Ray itself takes a minute or two

_failed: list[str] = []


def check(what: str, holds: bool, detail: object = "") -> None:
    """One line; a failure is remembered."""
    print(f"serve: {'ok    ' if holds else 'FAILED'} {what}{f': {detail}' if detail != '' else ''}", flush=True)
    if not holds:
        _failed.append(what)


def fetch(url: str, body: bytes | None = None) -> tuple[int, str]:
    """Status and text, whatever the status."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def npy(sample: np.ndarray) -> bytes:
    """The body of a request."""
    file = io.BytesIO()
    np.save(file, sample)
    return file.getvalue()


def free_port() -> int:
    """One that nobody has just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """The server's process, from its start to its end."""

    def __init__(self, log: Path, arguments: list[str]) -> None:
        """Starts it; `wait` says when it serves."""
        self._mark = uuid.uuid4().hex
        self._log = log
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, str(FOLDER / "server.py"), "--port", str(port), *arguments]
        with log.open("w") as out:
            self._process = subprocess.Popen(
                command, env={**os.environ, MARK: self._mark}, stdout=out, stderr=subprocess.STDOUT
            )

    def wait(self) -> int:
        """The number of replicas, once they are ready."""
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            ready = re.search(r"^ready: (\d+) replicas", self._log.read_text(errors="replace"), re.MULTILINE)
            if ready:
                return int(ready[1])
            time.sleep(0.2)
        raise RuntimeError(f"the server is not ready; its output ends with\n{self._log.read_text()[-3000:]}")

    def end(self) -> tuple[int | None, list[str]]:
        """Its exit code after SIGTERM, None where it had to be killed; and what it left running."""
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(60)
        code = self._process.poll()
        self._process.kill()
        end = time.monotonic() + 15
        while (left := list(self._left())) and time.monotonic() < end:
            time.sleep(0.3)
        for process, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return code, [name for _, name in left]

    def _left(self) -> Iterator[tuple[int, str]]:
        wanted = f"{MARK}={self._mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name), (folder / "comm").read_text().strip()


def samples(text: str) -> dict[tuple[str, str], dict[str, float]]:
    """Metrics by name and replica: values by their other labels."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name, labels, value in re.findall(r"^(\w+)\{(.*)\} (\S+)$", text, re.MULTILINE):
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        replica = pairs.pop("replica", "")
        found.setdefault((name, replica), {})[",".join(pairs.values())] = float(value)
    return found


def check_requests(url: str) -> None:
    """What is no good is refused with a reason, and memory that does not suffice is said to."""
    good = npy(np.zeros((3, 32, 32), np.float32))
    for what, body, text in (
        ("no .npy file", b"hello", "no .npy file"),
        ("another element type", npy(np.zeros((3, 32, 32))), "is float32, not float64"),
        ("another shape", npy(np.zeros((4, 32, 32), np.float32)), "not [4, 32, 32]"),
        ("an empty image", npy(np.zeros((3, 0, 32), np.float32)), "not [3, 0, 32]"),
    ):
        status, answer = fetch(url + "/predict", body)
        check(f"400 for {what}", status == 400 and text in answer, answer[:100])
    check("405 without a body", fetch(url + "/predict")[0] == 405)
    check("404 elsewhere", fetch(url + "/elsewhere")[0] == 404)
    status, answer = fetch(url + "/predict", npy(np.zeros((3, 2400, 2400), np.float32)))
    check("503 for an image beyond the memory limit", status == 503, answer[:100])
    status, answer = fetch(url + "/predict", good)
    check("200 after it", status == 200 and len(json.loads(answer)["scores"]) == 10, answer[:40])


def check_health(url: str) -> None:
    """The route and the command agree."""
    status, answer = fetch(url + "/health")
    check("healthy", status == 200 and json.loads(answer)["ok"], answer)
    doctor = subprocess.run(
        [sys.executable, "-m", "ort_cuda_ep", "doctor", "--json"], capture_output=True, text=True, check=False
    )
    check("doctor --json", doctor.returncode == 0 and json.loads(doctor.stdout)["ok"], f"code {doctor.returncode}")


def check_metrics(middle: str, end: str, replicas: int, requests: int) -> None:
    """Every replica is there, has worked, and takes no more memory at the end than in the middle."""
    before, after = samples(middle), samples(end)
    names = sorted(replica for name, replica in after if name == "serve_batches_total")
    check("metrics of every replica", len(names) == replicas, names)
    answered = sum(after.get(("serve_answers_total", name), {}).get("200", 0) for name in names)
    check("every answer is counted", answered >= requests, f"{answered:.0f} of {requests}")
    batches = sum(after[("serve_batches_total", name)][""] for name in names)
    check("requests are batched", batches < answered, f"{answered / max(1, batches):.1f} a batch")
    for name in names:
        for metric, room in (
            ("ort_cuda_ep_memory_in_use_bytes", 4 << 20),
            ("ort_cuda_ep_memory_reserved_bytes", 8 << 20),
            ("process_resident_memory_bytes", 24 << 20),
        ):
            first, last = (sum(found.get((metric, name), {"": 0.0}).values()) for found in (before, after))
            check(f"{metric} of {name} is flat", 0 < last <= first + room, f"{first:.0f}, then {last:.0f}")
        streams = after[("ort_cuda_ep_streams", name)]["0"]
        check(f"{name} has a stream", streams >= 1, int(streams))
    failures = sum(sum(after[("ort_cuda_ep_memory_failures_total", name)].values()) for name in names)
    check("the image beyond the limit is counted", failures >= 1, int(failures))


def load(url: str, seconds: float, clients: int) -> tuple[dict[str, object], str]:
    """What the load generator says, and the metrics in the middle of it."""
    command = [sys.executable, str(FOLDER / "load.py"), "--url", url, "--json"]
    command += ["--seconds", str(seconds), "--clients", str(clients)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        time.sleep(seconds / 2 + 2)
        middle = fetch(url + "/metrics")[1]
        out, _ = child.communicate()
    return json.loads(out.splitlines()[-1]), middle


def main() -> int:
    """Ends with 1 where a check failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--replicas", default="auto")
    parser.add_argument("--log", type=Path, default=Path("build/serve.log"), help="where the server's output goes")
    arguments = parser.parse_args()
    start = time.monotonic()
    server = Server(arguments.log, ["--replicas", arguments.replicas, "--option", f"gpu_mem_limit={LIMIT_BYTES}"])
    try:
        replicas = server.wait()
        check("ready", True, f"{replicas} replicas after {time.monotonic() - start:.0f} s")
        check_health(server.url)
        check_requests(server.url)
        found, middle = load(server.url, arguments.seconds, arguments.clients)
        check("no error under load", found["errors"] == 0 and int(str(found["requests"])) > 0, json.dumps(found))
        time.sleep(3)  # a replica reports once a second
        check_metrics(middle, fetch(server.url + "/metrics")[1], replicas, int(str(found["requests"])))
        check("healthy after it", fetch(server.url + "/health")[0] == 200)
    finally:
        code, left = server.end()
    check("ends with 0 and leaves nothing", code == 0 and not left, f"code {code}, left {left}")
    print(f"serve: {len(_failed)} failed, {time.monotonic() - start:.0f} s")
    return 1 if _failed else 0


if __name__ == "__main__":
    sys.exit(main())
