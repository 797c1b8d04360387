"""What all Python tests share: the library under test, named at the head of every run."""

import gc
import os

import pytest

from .op.harness import driver
from .session import host


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--modes", default="", help="of operator cases: only these, as graph,shifted; or all but these, as -session"
    )
    parser.addoption("--cases", default="", help="of operator cases: only those with this text in their id")


def pytest_collection_finish() -> None:
    """The tests and their cases live to the end: the collector need not walk them again and again."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> list[str]:
    plugin = host.plugin_path()
    try:
        backend = driver.load().backend
    except (FileNotFoundError, OSError) as error:
        backend = f"none ({error})"
    return [
        f"operators: {backend}, seeds shifted by {os.environ.get('CUDAEP_TEST_SEED', '0')}",
        f"sessions: {plugin.name if plugin else 'no plug-in library'}",
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One test has many operator cases."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    properties = [entry for report in reports if report.when == "call" for entry in report.user_properties]
    ran, skipped = (sum(count for name, count in properties if name == f"cases_{kind}") for kind in ("run", "skipped"))
    if ran or skipped:
        terminalreporter.write_line(f"operator cases: {ran}, {skipped} skipped")


@pytest.fixture(scope="session")
def test_library() -> str:
    """Path of the plug-in library in $CUDAEP_TEST_LIB_DIR, by default the simulated device's."""
    path = host.plugin_path()
    if path is None:
        pytest.fail("there is no plug-in library: make sim")
    return str(path.resolve())
