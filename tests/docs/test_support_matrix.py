"""The support matrix says what the kernel table says."""

import support_matrix

from tests.op.harness import driver


def test_the_page_is_up_to_date() -> None:
    assert support_matrix.PAGE.read_text() == support_matrix.page(list(driver.load().rows)), (
        "run tools/support_matrix.py"
    )


def test_the_page_names_what_is_missing() -> None:
    rows = list(driver.load().rows)
    assert "Attention" in support_matrix.missing(rows)
    assert "Add" not in support_matrix.missing(rows)
    assert "Add" in support_matrix.missing([row for row in rows if row.op != "Add"])
