"""Tricritical points with exact answers."""

import math

import pytest

from phasetheory.errors import InputError
from phasetheory.landscape import landscape_from_expression, tricritical_point


def blume_capel(T):
    return landscape_from_expression(
        "m**2/2 - T*log(1 + 2*exp(-D/T)*cosh(m/T))",
        ["m"],
        "D",
        {"m": (-2.0, 2.0)},
        (0.2, 0.8),
        parameters={"T": T},
    )


def test_blume_capel():
    """T = 1/3, D = log(4)/3."""
    found = tricritical_point(blume_capel, (0.25, 0.5))
    assert found.parameter == pytest.approx(1 / 3, abs=1e-7)
    assert found.control == pytest.approx(math.log(4) / 3, abs=1e-7)
    assert abs(found.parameter - 1 / 3) <= found.parameter_error + 1e-9
    assert found.order_parameters == pytest.approx([0.0], abs=1e-9)


def test_a_stiff_coordinate_changes_the_sign_of_the_quartic():
    """x^6/6 + p x^4/4 + u x^2/2 + 5 y^2 - x^2 y: the effective quartic is p/4 - 1/20."""

    def family(p):
        return landscape_from_expression(
            "x**6/6 + p*x**4/4 - u*x**2/2 + 5*y**2 - x**2*y",
            ["x", "y"],
            "u",
            {"x": (-2.0, 2.0), "y": (-1.0, 2.0)},
            (-0.5, 0.5),
            parameters={"p": p},
        )

    found = tricritical_point(family, (-0.3, 1.0))
    assert found.parameter == pytest.approx(0.2, abs=1e-7)
    assert found.control == pytest.approx(0.0, abs=1e-9)


def test_bad_brackets():
    with pytest.raises(InputError, match="ascending"):
        tricritical_point(blume_capel, (0.5, 0.25))
    with pytest.raises(InputError, match=r"positive .* both at 0\.4 and at 0\.5"):
        tricritical_point(blume_capel, (0.4, 0.5))
