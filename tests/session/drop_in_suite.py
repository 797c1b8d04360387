"""What `ort_cuda_ep.install` does to sessions, on every supported host: run as a child process, one JSON line a check.

    CUDAEP_SIM_DEVICES=3 python -m tests.session.drop_in_suite LIBRARY

The names below are imported before `install`, as programs do.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import pickle
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import ort_cuda_ep
from onnxruntime import InferenceSession, get_available_providers, get_device
from onnxruntime.capi import _pybind_state as native

from tests.session import models
from tests.session.suite import EP, SkippedError, error_of, run_checks

CPU = "CPUExecutionProvider"
ALL_OURS = {"require_all_compute_nodes": "1"}
X = np.arange(4, dtype=np.float32)
MODEL = models.add_chain(2)
before: dict[str, Any] = {}  # what `install_library` saw before the call


def attributes() -> dict[tuple[str, str], object]:
    """Everything that `install` may replace: the host's modules, this one, and the classes it changes."""
    found: dict[tuple[str, str], object] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("onnxruntime") or name == __name__:
            found |= {(name, key): value for key, value in vars(module).items()}
    for owner in (ort.InferenceSession, native.OrtDevice, native.SessionOptions):
        found |= {(owner.__name__, key): value for key, value in vars(owner).items()}
    return found


def install_library(library: str) -> None:
    os.environ[ort_cuda_ep.LIBRARY_VARIABLE] = library
    before["session"] = InferenceSession(MODEL)
    before["attributes"] = attributes()
    assert ort_cuda_ep.install() == library


def result(session: ort.InferenceSession) -> list[float]:
    return list(session.run(None, {"v0": X, "b": X})[0])


def assert_ours(session: ort.InferenceSession, *others: str) -> None:
    assert session.get_providers() == [EP, *others], session.get_providers()
    assert result(session) == [0, 3, 6, 9]


def refused(*arguments: Any, **settings: Any) -> str:
    """The error of a session that cannot be; nothing is printed, since nothing was tried on the CPU."""
    with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = error_of(lambda: InferenceSession(MODEL, *arguments, **settings))
    assert printed.getvalue() == "", printed.getvalue()
    return text


def check_programs_are_told_of_it() -> None:
    """First in the list, since programs take the first; also by names that were imported before."""
    for listed in (get_available_providers, ort.get_available_providers, native.get_available_providers):
        assert listed()[0] == EP and listed()[-1] == CPU and listed().count(EP) == 1, listed()
    assert get_device() == ort.get_device() == "GPU"


def check_every_form_of_naming_it() -> None:
    """Names, pairs, options apart, in order and by keyword; with and without the CPU behind it."""
    settings = ort.SessionOptions()
    for arguments in (
        (None, [EP], [ALL_OURS]),
        (settings, [EP, CPU], [ALL_OURS, {}]),
        (settings, [(EP, ALL_OURS), CPU]),
        (settings, ((EP, {**ALL_OURS, "use_tf32": False, "gpu_mem_limit": 1 << 30}), (CPU, {}))),
    ):
        assert_ours(InferenceSession(MODEL, *arguments), CPU)
    assert_ours(InferenceSession(MODEL, sess_options=settings, providers=[EP], provider_options=[ALL_OURS]), CPU)
    names = [name for name in ort.get_available_providers() if name != EP]
    assert_ours(InferenceSession(MODEL, providers=ort.get_available_providers()), *names)
    behind = InferenceSession(MODEL, providers=[CPU, EP])
    assert behind.get_providers() == [CPU, EP]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(MODEL)
        assert_ours(InferenceSession(path, providers=[EP]), CPU)
        assert_ours(InferenceSession(str(path), providers=[EP]), CPU)


def check_without_a_name_the_host_decides() -> None:
    """providers=None, an empty list and the CPU alone are not for us."""
    for settings in ({}, {"providers": None}, {"providers": []}, {"providers": [CPU]}):
        assert InferenceSession(MODEL, **settings).get_providers() == [CPU]


def check_the_device_of_an_option() -> None:
    """device_id as number or text; it is in the session's options again, where programs read it."""
    if len(ort_cuda_ep.devices()) < 3:
        raise SkippedError("needs 3 devices")
    for value, ordinal in ((1, 1), ("2", 2), ("0", 0)):
        session = InferenceSession(MODEL, providers=[(EP, {"device_id": value, **ALL_OURS})])
        assert_ours(session, CPU)
        assert {info.device_id for info in session.get_input_memory_infos()} == {ordinal}
        assert session.get_provider_options()[EP]["device_id"] == str(ordinal)
    assert "device_id 7 does not exist: 3 device(s)" in refused(providers=[(EP, {"device_id": 7})])
    assert "device_id -1 does not exist" in refused(providers=[(EP, {"device_id": "-1"})])
    assert "number of a device, not 'first'" in refused(providers=[(EP, {"device_id": "first"})])


def check_an_error_never_ends_on_the_cpu() -> None:
    """Options, forms and models that cannot be: the error comes through, whatever the host's fallback would do."""
    for value in ({"nonsense": "1"}, {"gpu_mem_limit": "1GB"}, {"gpu_mem_limit": None}):
        assert next(iter(value)) in refused(providers=[(EP, value), CPU])
    assert "sequence" in refused(providers={EP, CPU})
    assert "sequence of names" in refused(providers=EP)
    assert "tuples" in refused(providers=[[EP, {}], CPU])
    assert "same length" in refused(providers=[EP, CPU], provider_options=[{}])
    assert "MadeUpExecutionProvider" in refused(providers=["MadeUpExecutionProvider", EP])
    mixed = models.add_then_string()
    assert "not_ours" in error_of(lambda: InferenceSession(mixed, providers=[(EP, ALL_OURS)], enable_fallback=1))


def check_a_failed_run_is_not_repeated_on_the_cpu() -> None:
    """Whatever request for memory fails; an application may ask for the host's fallback, and gets it."""
    feeds = {"x": np.random.default_rng(5).standard_normal((3, 8, 32), dtype=np.float32)}
    ends = set()
    for index, wanted in itertools.product(range(1, 30), (False, True)):
        try:
            session = InferenceSession(models.mixer(), providers=[(EP, {**ALL_OURS, "debug.fail_allocation": index})])
        except Exception:  # a weight's memory
            continue
        if wanted:
            session.enable_fallback()
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                session.run(None, feeds)
            except Exception as error:
                ends.add((wanted, type(error).__name__))
        ends.add((wanted, session.get_providers()[0]))
    assert {(False, "EPFail"), (False, EP), (True, CPU)} <= ends and not {(False, CPU), (True, "EPFail")} & ends, ends


def check_providers_that_the_host_lacks() -> None:
    """One that it knows is passed over with its warning, as ever."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert_ours(InferenceSession(MODEL, providers=["TensorrtExecutionProvider", EP, CPU]), CPU)
    assert any("TensorrtExecutionProvider" in str(warning.message) for warning in told)


def check_options_of_the_caller_stay_as_they_are() -> None:
    """Used for any number of sessions, on any provider; what they say holds in each."""
    settings = ort.SessionOptions()
    settings.add_free_dimension_override_by_name("n", 4)
    settings.add_session_config_entry("ep.cuda.use_tf32", "0")
    for _ in range(3):
        session = InferenceSession(MODEL, settings, [(EP, {**ALL_OURS, "sdpa_kernel": "0"})])
        assert_ours(session, CPU)
        assert session.get_inputs()[0].shape == [4]
        assert session.get_session_options().get_session_config_entry("ep.cuda.use_tf32") == "0"
    assert not settings.has_providers()
    assert "sdpa_kernel" in error_of(lambda: settings.get_session_config_entry("ep.cuda.sdpa_kernel"))
    assert InferenceSession(MODEL, settings).get_providers() == [CPU]


def check_one_session_writes_one_profile() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = ort.SessionOptions()
        settings.enable_profiling = True
        settings.profile_file_prefix = str(Path(folder) / "profile")
        session = InferenceSession(MODEL, settings, [EP])
        assert_ours(session, CPU)
        written = session.end_profiling()
        assert settings.enable_profiling and [str(path) for path in Path(folder).iterdir()] == [written]


def check_a_session_changes_its_providers() -> None:
    """Also one from before `install`."""
    session = before["session"]
    for _ in range(2):
        session.set_providers([EP], [ALL_OURS])
        assert_ours(session, CPU)
        session.set_providers([CPU])
        assert session.get_providers() == [CPU] and result(session) == [0, 3, 6, 9]
    session.set_providers([(EP, ALL_OURS), CPU])
    assert_ours(session, CPU)


def check_buffers_on_a_device_called_cuda() -> None:
    """IO binding and values by the device's name, and by an address."""
    session = InferenceSession(MODEL, providers=[(EP, ALL_OURS)])
    made = ort.OrtValue.ortvalue_from_shape_and_type([4], np.float32, "cuda", 0)
    made.update_inplace(X)
    copied = ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0)
    assert made.device_name() == copied.device_name() == "cuda"
    binding = session.io_binding()
    binding.bind_ortvalue_input("v0", copied)
    binding.bind_input("b", "cuda", 0, np.float32, [4], made.data_ptr())
    binding.bind_output("v2", "cuda", 0)
    session.run_with_iobinding(binding)
    (value,) = binding.get_outputs()
    assert value.device_name() == "cuda" and list(value.numpy()) == [0, 3, 6, 9]
    binding.bind_output("v2", "cuda", 0, np.float32, [4], made.data_ptr())  # onto the second input
    session.run_with_iobinding(binding)
    assert list(made.numpy()) == [0, 3, 6, 9]


class Pickled(InferenceSession):
    """As libraries derive from the class."""

    def __init__(self, path: str, **settings: Any) -> None:
        super().__init__(path, **settings)
        self.arguments = (path, settings)

    def __getstate__(self) -> object:
        return self.arguments

    def __setstate__(self, state: Any) -> None:
        self.__init__(state[0], **state[1])  # type: ignore[misc]


def check_classes_derived_from_a_session() -> None:
    """Before `install`, and pickled."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(MODEL)
        first = Pickled(str(path), providers=[EP])
        second = pickle.loads(pickle.dumps(first))
        for session in (first, second):
            assert isinstance(session, ort.InferenceSession)
            assert_ours(session, CPU)


def check_many_threads_make_sessions() -> None:
    settings = ort.SessionOptions()
    wrong: list[str] = []

    def work(index: int) -> None:
        try:
            for _ in range(5):
                name = EP if index % 2 else CPU
                session = InferenceSession(MODEL, settings, [name])
                assert session.get_providers()[0] == name
                assert result(session) == [0, 3, 6, 9]
        except Exception as error:
            wrong.append(str(error))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def check_options_for_every_session() -> None:
    """Where a program sets none; the session's own win."""
    try:
        ort_cuda_ep.install(provider_options={"use_tf32": False, "device_id": 0})
        options = InferenceSession(MODEL, providers=[EP]).get_provider_options()[EP]
        assert options == {"use_tf32": "0", "device_id": "0"}, options
        options = InferenceSession(MODEL, providers=[(EP, {"use_tf32": 1})]).get_provider_options()[EP]
        assert options["use_tf32"] == "1"
        ort_cuda_ep.install(provider_options={"nonsense": "1"})
        assert "nonsense" in refused(providers=[EP])
    finally:
        ort_cuda_ep.install(provider_options={})


def check_uninstall_puts_everything_back() -> None:
    """The very objects; sessions live on, and install works again."""
    session = InferenceSession(MODEL, providers=[(EP, ALL_OURS)])
    installed = attributes()
    ort_cuda_ep.install()
    assert all(installed[key] is value for key, value in attributes().items()), "a second call replaced something"
    for _ in range(2):
        ort_cuda_ep.uninstall()
        now = attributes()
        changed = [key for key, value in before["attributes"].items() if now[key] is not value]
        assert not changed, changed
        assert_ours(session, CPU)
    ort_cuda_ep.install()
    assert_ours(session, CPU)
    assert_ours(InferenceSession(MODEL, providers=[(EP, ALL_OURS)]), CPU)


if __name__ == "__main__":
    run_checks(globals(), install_library)
