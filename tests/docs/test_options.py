"""The page of options says what the options table says."""

import options_page

from tests.op.harness import driver


def test_the_page_is_up_to_date() -> None:
    assert options_page.PAGE.read_text() == options_page.page(driver.load().options()), "run tools/options_page.py"


def test_every_option_is_on_the_page_once() -> None:
    rows = driver.load().options()
    assert len(rows) > 50
    page = options_page.page(rows)
    assert [row["name"] for row in rows if page.count(f"| `{row['name']}` |") != 1] == []
    assert [row["name"] for row in rows if not row["doc"] or "|" in row["doc"] + row["accepts"]] == []


def test_an_option_that_is_not_on_the_page_is_noticed() -> None:
    more = {"name": "new", "accepts": "0, 1", "default": "0", "doc": "does it", "kind": "ours"}
    assert options_page.page([*driver.load().options(), more]) != options_page.PAGE.read_text()
