"""The parts of the GPU bundle."""

from pathlib import Path

import bundle_gpu


def test_parts_join_to_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "bundle.tar.gz"
    archive.write_bytes(bytes(range(250)))
    parts = bundle_gpu.split(archive, 100)
    assert [part.name for part in parts] == [f"bundle.tar.gz.0{index}" for index in range(3)]
    assert b"".join(part.read_bytes() for part in parts) == bytes(range(250))
    assert not archive.exists()


def test_tools_for_writing_code_stay_behind() -> None:
    text = "# the host\nonnxruntime==1.31.1\nml_dtypes==0.6.0\nruff==0.17.5\n\nrapidocr-onnxruntime==1.4.4\n"
    assert bundle_gpu.wheel_requirements(text) == ["onnxruntime==1.31.1", "rapidocr-onnxruntime==1.4.4"]
