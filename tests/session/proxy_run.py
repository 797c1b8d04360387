"""Child process of test_host_calls: prints the calls into the host that one more Add node costs a Run.

With the argument "constant" the node's second input is a constant; with "region", what a region of Adds costs more than
one Add.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import onnxruntime as ort

from tests.session import models


def calls_of_one_run(proxy: ctypes.CDLL, length: int, constant: bool, region: bool = False) -> int:
    options = ort.SessionOptions()
    ours = [d for d in ort.get_ep_devices() if d.ep_name == "CUDAExecutionProvider"]
    options.add_provider_for_devices(ours, {"compiled_regions": str(int(region))})
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = ort.InferenceSession(models.add_chain(length, constant), options)
    feeds = {"v0": np.ones(4, np.float32)} | ({} if constant else {"b": np.ones(4, np.float32)})
    for _ in range(3):  # plans, streams and workspaces are made by the first Run
        session.run(None, feeds)
    proxy.CountingProxyReset()
    (result,) = session.run(None, feeds)
    assert result[0] == 1 + length
    return int(proxy.CountingProxyTotal())


def main() -> None:
    proxy = ctypes.CDLL(sys.argv[1])
    proxy.CountingProxyTotal.restype = ctypes.c_uint64
    ort.register_execution_provider_library("CUDAExecutionProvider", sys.argv[1])
    constant = "constant" in sys.argv[2:]
    if "region" in sys.argv[2:]:
        print(calls_of_one_run(proxy, 30, constant, region=True) - calls_of_one_run(proxy, 1, constant))
        return
    print((calls_of_one_run(proxy, 30, constant) - calls_of_one_run(proxy, 10, constant)) / 20)


if __name__ == "__main__":
    main()
