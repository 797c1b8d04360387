"""Says at the head of every run which libraries are under test."""

import os

from .op.harness import driver
from .session import host


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
