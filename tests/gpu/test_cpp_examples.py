"""The applications of examples/cpp on a GPU, from a bundle or a build; skipped where there is none."""

from pathlib import Path

import onnxruntime as ort
import ort_cuda_ep
import pytest

from tests.examples.programs import PROGRAMS, ROOT, model, run

pytestmark = pytest.mark.skipif(not ort_cuda_ep.gpu_driver_present(), reason="there is no GPU")


@pytest.mark.parametrize("name", PROGRAMS)
def test_example(name: str, tmp_path: Path, test_library: str) -> None:
    [host] = (Path(ort.__file__).parent / "capi").glob("libonnxruntime.so.*")
    (tmp_path / "libonnxruntime.so.1").symlink_to(host)
    settings = {"LD_LIBRARY_PATH": str(tmp_path), "ORT_CUDA_EP_LIBRARY": test_library}
    done = run(ROOT / "build" / "cuda" / "examples" / name, str(model(tmp_path)), **settings)
    assert done.returncode == 0, done.stderr
    assert PROGRAMS[name] in done.stdout
