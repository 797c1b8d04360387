"""Magnitudes for cases (harness/tolerances.py) of functions that strain their argument."""

from typing import Any

import numpy as np

from .case import Reference


def of_argument(f: Reference) -> Reference:
    """What a relative error of the argument does to f's value: much in a tail, where f falls like exp(-x^2).

    A second input is a bias, which is added to the argument before.
    """

    def magnitude(x: np.ndarray, bias: np.ndarray | float = 0.0, **attributes: Any) -> Any:
        z = x + bias
        step = 1e-6 * (1 + np.abs(z))
        return np.abs(z * (f(z + step, **attributes) - f(z - step, **attributes)) / (2 * step))

    return magnitude
