"""The version of the package; the CMake project carries the same one and a test compares them."""

__version__ = "0.1.0"
