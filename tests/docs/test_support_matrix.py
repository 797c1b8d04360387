"""The support matrix says what the kernel table says."""

import onnx
import onnxruntime as ort
import support_matrix

from tests.op.harness import driver, schemas


def test_the_page_is_up_to_date() -> None:
    assert support_matrix.PAGE.read_text() == support_matrix.page(list(driver.load().rows)), (
        "run tools/support_matrix.py"
    )


def test_the_page_names_what_is_missing() -> None:
    rows = list(driver.load().rows)
    assert "StringSplit" in support_matrix.missing(rows)
    assert "Add" not in support_matrix.missing(rows)
    assert "Add" in support_matrix.missing([row for row in rows if row.op != "Add"])


def _row(op: str, since: int, until: int, types: set[str]) -> driver.Row:
    return driver.Row("operator", "", op, since, until, {"T": frozenset(types)}, (), (), (), ())


def test_versions_and_types_without_a_kernel_are_named() -> None:
    floats = {"float16", "float32", "float64"}
    assert support_matrix.lacking([_row("Exp", 6, 13, floats)]) == "version 1; T: bfloat16 (13)"
    assert support_matrix.lacking([_row("Exp", 1, 13, {*floats, "bfloat16"})]) == ""


def test_the_page_knows_every_opset_of_the_host() -> None:
    """A newer host has newer operators: raise NEWEST_OPSET and write the page again, which names them."""

    def loads(opset: int) -> bool:
        x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
        y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
        graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
        try:
            ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        except Exception:
            return False
        return True

    assert loads(schemas.NEWEST_OPSET)
    assert not loads(schemas.NEWEST_OPSET + 1)
