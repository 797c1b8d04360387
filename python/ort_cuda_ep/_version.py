"""The version of the project; CMake, the wheel and the library read it here."""

__version__ = "0.1.0"
