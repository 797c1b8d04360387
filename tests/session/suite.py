"""What must hold on every supported host: run as a child process, one JSON line a check.

    python -m tests.session.suite LIBRARY

Each function named check_* is one check; its docstring says what it shows.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models

EP = "CUDAExecutionProvider"


def devices() -> list[ort.OrtEpDevice]:
    return [device for device in ort.get_ep_devices() if device.ep_name == EP]


def simulated() -> bool:
    return bool(devices()[0].ep_metadata["simulated"] == "1")


def add_provider(
    settings: ort.SessionOptions, options: dict[str, str] | None = None, chosen: list[ort.OrtEpDevice] | None = None
) -> None:
    """On the first device or the chosen ones; as the CPU provider without TF32, which the simulated device has not."""
    exact = {} if simulated() else {"use_tf32": "0"}
    settings.add_provider_for_devices(chosen or devices()[:1], {**exact, **(options or {})})


def session_options() -> ort.SessionOptions:
    """Threads of the host's that have nothing to do sleep: tests run side by side."""
    settings = ort.SessionOptions()
    for pool in ("intra_op", "inter_op"):
        settings.add_session_config_entry(f"session.{pool}.allow_spinning", "0")
    return settings


def session(
    model: bytes,
    options: dict[str, str] | None = None,
    cpu_allowed: bool = False,
    entries: dict[str, str] | None = None,
    parallel: bool = False,
    level: ort.GraphOptimizationLevel = ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
) -> ort.InferenceSession:
    settings = session_options()
    settings.graph_optimization_level = level
    if parallel:  # streams of one Run are on threads of the host's
        settings.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        settings.inter_op_num_threads = 3
    for key, value in (entries or {}).items():
        settings.add_session_config_entry(key, value)
    add_provider(settings, options)
    if not cpu_allowed:
        settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    created = ort.InferenceSession(model, settings, enable_fallback=0)
    created.disable_fallback()  # otherwise Python repeats a failed Run on the CPU
    return created


def statistics() -> dict[str, Any]:
    """Of the library of the command line, as docs/guides/serving.md lists them."""
    read = ctypes.CDLL(sys.argv[1]).OrtCudaEpStatistics
    read.argtypes, read.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_size_t
    text = ctypes.create_string_buffer(1 << 16)
    assert read(text, len(text)) <= len(text)
    found = json.loads(text.value)
    assert isinstance(found, dict)
    return found


def error_of(call: Callable[[], object]) -> str:
    """The text of the error that `call` raises; a call that succeeds is a failure of the check."""
    try:
        call()
    except Exception as error:
        return str(error)
    raise AssertionError("no error was raised")


@contextmanager
def logged(part: str) -> Iterator[list[str]]:
    """The lines of the log with `part` in them, at the end of the scope."""
    found: list[str] = []
    with tempfile.TemporaryFile("w+") as log:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield found
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
        log.seek(0)
        found += [line for line in log if part in line]


def check_devices_are_described() -> None:
    """Every GPU once, with its ordinal, and never a simulated one without the label."""
    found = devices()
    assert [d.ep_metadata["cuda_ordinal"] for d in found] == [str(i) for i in range(len(found))], found
    assert found, "no device"
    for device in found:
        assert device.ep_vendor == "ort-cuda-ep"
        assert ("simulated" in device.ep_metadata["name"].lower()) == (device.ep_metadata["simulated"] == "1")
        assert device.ep_metadata["pci_bus_id"].count(":") == 2
        assert device.device.vendor_id == 0x10DE


def check_a_chain_runs_on_our_provider() -> None:
    """No node on the CPU, any length of input, also none."""
    chain = session(models.add_chain(5))
    for length in (1, 3, 1000, 0, 7):
        x, b = np.arange(length, dtype=np.float32), np.ones(length, np.float32)
        (result,) = chain.run(None, {"v0": x, "b": b})
        np.testing.assert_array_equal(result, x + 5)


def check_other_nodes_go_to_the_cpu() -> None:
    """What the provider does not take runs on the CPU, or fails the session when that is forbidden."""
    mixed = session(models.add_then_string(), cpu_allowed=True)
    (text,) = mixed.run(None, {"x": np.array([1.5, 2], np.float32)})
    assert [float(t) for t in text] == [3.0, 4.0]
    assert "CPU" in error_of(lambda: session(models.add_then_string()))


def check_a_node_that_nobody_takes_is_explained() -> None:
    """The host's own error gives no reason; the log does, once."""
    drop = helper.make_node("BiasDropout", ["x", "b", "", "", "m"], ["y"], name="drop", domain="com.microsoft")
    floats: tuple[int, list[str | int]] = (TensorProto.FLOAT, [4])
    model = models.model([drop], {"x": floats, "b": floats}, {"y": floats}, {"m": np.array(True)})
    with logged("BiasDropout node 'drop': ") as lines:
        assert "BiasDropout" in error_of(lambda: session(model, cpu_allowed=True))
    told = [line for line in lines if "input training_mode; only inference, without it, is offered" in line]
    assert len(told) == 1, lines


def check_a_node_without_a_name_is_told_by_its_output() -> None:
    """In the error of a Run."""
    floats: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["n"])
    other: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["m"])
    add = helper.make_node("Add", ["a", "b"], ["sum"])
    created = session(models.model([add], {"a": floats, "b": other}, {"sum": floats}))
    text = error_of(lambda: created.run(None, {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)}))
    assert "Add node with output 'sum' on float[2]" in text, text


def check_the_hosts_own_keys_are_accepted() -> None:
    """Those without effect here are told once."""
    entries = {
        "ep.cuda.fpa_intb_gemm": "on",
        "ep.cuda.fpa_intb_profile_m": "1,8,64",
        "ep.cuda.gqa_workspace_max_total_sequence_length": "4096",
        "ep.cuda.gemm_tactic_cache_prefix": "/models/llm",
    }
    with logged("is accepted, without effect here: ") as lines:
        for _ in range(2):
            session(models.add_chain(1), entries=entries)
    for key, value in entries.items():
        told = [line for line in lines if f"{key.removeprefix('ep.cuda.')}='{value}'" in line]
        assert len(told) == 1, lines


def check_bad_options_are_refused_by_name() -> None:
    """The process lives on, and the text names option and value."""
    cases = {
        "gpu_mem_limit": "-5",
        "cudnn_conv_algo_search": "FASTEST",
        "no_such_option": "1",
        "has_user_compute_stream": "1",
        "min_num_runs_before_cuda_graph_capture": "8",
    }
    for name, value in cases.items():
        text = error_of(lambda name=name, value=value: session(models.add_chain(1), {name: value}))
        assert name in text, text
    assert session(models.add_chain(1)).run(None, {"v0": np.ones(2, np.float32), "b": np.ones(2, np.float32)})


def check_convolutions_run_channels_last_when_asked() -> None:
    """16-bit ones of whole packs of channels, with and without a bias; what cannot is an error with the option."""
    rng = np.random.default_rng(4)
    for groups in (1, 2):
        w = (rng.standard_normal((24, 16 // groups, 3, 3)) / 8).astype(np.float16)
        bias, x = rng.standard_normal(24).astype(np.float16), rng.standard_normal((2, 16, 7, 9)).astype(np.float16)
        for inputs in (["x", "w"], ["x", "w", "b"]):
            node = helper.make_node("Conv", inputs, ["y"], name="conv", pads=[1, 1, 1, 1], strides=[2, 1], group=groups)
            results = []
            for kind, dtype in ((TensorProto.FLOAT16, np.float16), (TensorProto.FLOAT, np.float32)):
                constants = {name: value.astype(dtype) for name, value in (("w", w), ("b", bias)) if name in inputs}
                image: tuple[int, list[str | int]] = (kind, [2, 16, 7, 9])
                results.append(models.model([node], {"x": image}, {"y": (kind, [2, 24, 4, 9])}, constants))
            ours = session(results[0], {"conv_path": "channels_last"})
            if groups == 2:
                text = error_of(lambda ours=ours, x=x: ours.run(None, {"x": x}))
                assert "conv_path=channels_last is impossible" in text and "conv" in text, text
                continue
            wanted = ort.InferenceSession(results[1], providers=["CPUExecutionProvider"])
            (expected,) = wanted.run(None, {"x": x.astype(np.float32)})
            np.testing.assert_allclose(ours.run(None, {"x": x})[0], expected, rtol=2e-3, atol=4e-3)
    text = error_of(lambda: session(models.convolution(8), {"conv_path": "nhwc"}))
    assert "conv_path='nhwc' is malformed; accepted: auto, library, channels_last, columns, depthwise" in text, text


def check_a_wrong_device_id_is_refused() -> None:
    """It must be the selected device's ordinal. A session entry, since newer hosts keep the option to themselves."""
    text = error_of(lambda: session(models.add_chain(1), entries={"ep.cuda.device_id": "99"}))
    assert "device_id" in text and "99" in text, text


def check_a_bad_shape_fails_the_run_only() -> None:
    """The error names node and shapes; the next Run works."""
    chain = session(models.add_chain(2))
    text = error_of(lambda: chain.run(None, {"v0": np.ones(3, np.float32), "b": np.ones(2, np.float32)}))
    assert "[3]" in text and "[2]" in text and "Add" in text, text
    (result,) = chain.run(None, {"v0": np.ones(3, np.float32), "b": np.ones(3, np.float32)})
    np.testing.assert_array_equal(result, np.full(3, 3, np.float32))


def check_a_value_wanted_in_both_memories() -> None:
    """The host brings a node's input to one place, also where it is data and a count of repeats."""
    sizes: tuple[int, list[str | int]] = (TensorProto.INT64, [1])
    for producer in ([], [helper.make_node("Abs", ["x0"], ["x"])]):
        nodes = [*producer, helper.make_node("Tile", ["x", "x"], ["y"])]
        model = models.model(nodes, {"x0" if producer else "x": sizes}, {"y": (TensorProto.INT64, ["n"])})
        tile = session(model)
        for count in (3, 5):
            (result,) = tile.run(None, {tile.get_inputs()[0].name: np.array([count])})
            np.testing.assert_array_equal(result, [count] * count)


def check_a_constant_wanted_in_both_memories() -> None:
    """The host would hand its copy on the device to nodes on the CPU; so such a node is left to the CPU."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["r"], ["size"]),
        helper.make_node("Squeeze", ["axis", "axis"], ["zero"], name="both"),
        helper.make_node("Squeeze", ["size", "axis"], ["scalar"]),
        helper.make_node("Range", ["zero", "scalar", "one"], ["y"]),
    ]
    constants = {"axis": np.array([0]), "one": np.array(1)}
    inputs: dict[str, tuple[int, models.Dims]] = {"x": (TensorProto.FLOAT, ["n"])}
    outputs: dict[str, tuple[int, models.Dims | None]] = {
        "y": (TensorProto.INT64, ["n"]),
        "zero": (TensorProto.INT64, []),
    }
    model = models.model(nodes, inputs, outputs, constants)
    with logged("Squeeze node 'both': ") as lines:
        unchanged = session(model, cpu_allowed=True, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    assert any("'axis' is read on the device and in host memory" in line for line in lines), lines
    for count in (4, 2):
        y, zero = unchanged.run(None, {"x": np.ones(count, np.float32)})
        np.testing.assert_array_equal(y, np.arange(count))
        assert zero == 0


def check_a_corrupt_model_is_refused() -> None:
    """Truncated and random bytes give an error."""
    for data in (models.add_chain(3)[:-20], b"\x00\xff" * 64, b""):
        assert error_of(lambda data=data: session(data))


def check_concurrent_runs_agree_with_serial_ones() -> None:
    """Eight threads with different lengths over one session."""
    chain = session(models.add_chain(20))
    wrong: list[str] = []

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(20):
            x = generator.standard_normal(int(generator.integers(1, 3000)), dtype=np.float32)
            (result,) = chain.run(None, {"v0": x, "b": np.zeros_like(x)})
            if not np.array_equal(result, x):
                wrong.append(f"seed {seed}, length {x.size}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def check_values_and_bindings_outlive_their_session() -> None:
    """Outputs bound to the device can be read after the session is gone, in either order."""
    for drop_binding_first in (True, False):
        chain = session(models.add_chain(1))
        binding = chain.io_binding()
        binding.bind_cpu_input("v0", np.arange(4, dtype=np.float32))
        binding.bind_cpu_input("b", np.ones(4, np.float32))
        binding.bind_output("v1")
        chain.run_with_iobinding(binding)
        (value,) = binding.get_outputs()
        if drop_binding_first:
            del binding
            gc.collect()
            del chain
        else:
            del chain
            gc.collect()
            del binding
        gc.collect()
        np.testing.assert_array_equal(value.numpy(), np.arange(4, dtype=np.float32) + 1)


def check_sessions_come_and_go() -> None:
    """Many sessions, some alive together, in any order."""
    alive = [session(models.add_chain(2)) for _ in range(4)]
    for index in (2, 0, 1, 0):
        del alive[index % len(alive)]
        gc.collect()
        fresh = session(models.add_chain(1))
        assert fresh.run(None, {"v0": np.ones(1, np.float32), "b": np.ones(1, np.float32)})[0][0] == 2


class SkippedError(Exception):
    """Raised by a check that this host or installation cannot run; the text says why."""


def on_one_host(check: Callable[[], None]) -> Callable[[], None]:
    """Marks a long check of what hosts have no part in: `make test` has it on the newest, `make matrix` on all."""
    check.on_one_host = True  # type: ignore[attr-defined]
    return check


def register(library: str) -> None:
    ort.register_execution_provider_library(EP, library)


def run_checks(namespace: dict[str, object], register: Callable[[str], object] = register) -> None:
    """Registers the library of the command line and prints one line for each check of a suite, or of those it names."""
    library, *chosen = sys.argv[1:]
    register(library)
    gc.freeze()  # modules live to the end: the checks' collections need not walk them
    for name, check in list(namespace.items()):
        if not name.startswith("check_") or not callable(check) or (chosen and name not in chosen):
            continue
        failure = skipped = ""
        try:
            check()
        except SkippedError as reason:
            skipped = str(reason)
        except Exception:
            failure = traceback.format_exc()
        print(json.dumps({"check": name, "failure": failure, "skipped": skipped}), flush=True)


if __name__ == "__main__":
    run_checks(globals())
