"""Case tables for operators and the ways to run them; docs/guides/testing-operators.md shows how to write one."""

from .case import MICROSOFT, Case
from .inputs import Of, Rand, T
from .tolerances import Tolerance

__all__ = ["MICROSOFT", "Case", "Of", "Rand", "T", "Tolerance"]
