"""Checks of the source tree and of built libraries; each is a command and has a negative test in tests/tools."""
