"""Texts and exit codes of errors."""

import pytest
from ort_cuda_ep.cli.output import error_text, exit_code_of

CREATE = "/a/b.cc:71 virtual CreateProvider(const OrtLogger&) Error creating execution provider: "
OPTION = "INVALID_ARGUMENT: provider option use_tf32='x' is malformed"


@pytest.mark.parametrize(
    ("text", "expected", "code"),
    [
        (f"{CREATE}[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : {OPTION}\n", OPTION, 2),
        ("[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Load model failed", "INVALID_PROTOBUF: Load model failed", 2),
        ("[ONNXRuntimeError] : 11 : EP_FAIL : OUT_OF_MEMORY: 5 bytes", "OUT_OF_MEMORY: 5 bytes", 3),
        ("[ONNXRuntimeError] : 1 : FAIL : first\nsecond", "FAIL: first\nsecond", 3),
        ("device_id 3 does not exist", "device_id 3 does not exist", 3),
    ],
)
def test_the_hosts_own_places_are_left_out(text: str, expected: str, code: int) -> None:
    assert error_text(RuntimeError(text)) == expected
    assert exit_code_of(text) == code
