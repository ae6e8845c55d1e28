"""Lines of transitions and spinodals in two parameters, with exact answers."""

import numpy as np
import pytest

from phasetheory.errors import InputError
from phasetheory.landscape import landscape_from_expression, trace


def cusp(**changes):
    return landscape_from_expression(
        "x**4/4 + p*x**2/2 - u*x",
        ["x"],
        "u",
        {"x": (-3, 3)},
        (-1, 1.2),
        parameters={"p": -1.0},
        **changes,
    )


def test_spinodals_of_the_cusp():
    """27 u^2 = -4 p^3, through the fold in p at the origin onto the other spinodal."""
    (line,) = trace(cusp(), "p", (-1.5, 0.7), "spinodal")
    assert np.abs(27 * line.control**2 + 4 * line.parameter**3).max() < 1e-10
    assert line.control.min() < -0.1 < 0.1 < line.control.max()
    (end,) = [e for e in line.events if e.kind == "critical end"]
    assert end.parameter == pytest.approx(0.0, abs=1e-9)
    assert end.control == pytest.approx(0.0, abs=1e-9)
    assert [e.kind for e in line.ends] == ["border", "border"]


def test_first_order_line_of_the_cusp():
    """u = 0 and the jump 2 sqrt(-p), to the end at p = 0."""
    (line,) = trace(cusp(), "p", (-1.5, 0.7), "first-order")
    assert np.abs(line.control).max() < 1e-10
    assert line.jump == pytest.approx(2 * np.sqrt(-line.parameter), abs=1e-8)
    kinds = {e.kind: e for e in line.ends}
    assert set(kinds) == {"border", "critical end"}
    assert kinds["critical end"].parameter == pytest.approx(0.0, abs=1e-9)
    assert kinds["border"].parameter == pytest.approx(-1.5)


@pytest.mark.slow
def test_van_der_waals():
    """Maxwell's line ends at T = P = 1; the spinodals are P = 3/v^2 - 2/v^3."""
    gas = landscape_from_expression(
        "P*(1/3 + exp(y)) - 8*T*y/3 - 3/(1/3 + exp(y))",
        ["y"],
        "P",
        {"y": (-3, 3)},
        (0.5, 1.4),
        parameters={"T": 0.95},
    )
    (line,) = trace(gas, "T", (0.9, 1.1), "first-order")
    (end,) = [e for e in line.ends if e.kind == "critical end"]
    assert (end.parameter, end.control) == pytest.approx((1.0, 1.0), abs=1e-9)
    (line,) = trace(gas, "T", (0.9, 1.1), "spinodal")
    v = 1 / 3 + np.exp(line.coordinates[:, 0, 0])
    assert line.control == pytest.approx(3 / v**2 - 2 / v**3, abs=1e-9)


@pytest.mark.slow
def test_blume_capel():
    """D = T log(2(1-T)/T) to the tricritical point, and the first-order line that meets it."""
    model = landscape_from_expression(
        "m**2/2 - T*log(1 + 2*exp(-D/T)*cosh(m/T))",
        ["m"],
        "D",
        {"m": (-2, 2)},
        (-0.3, 0.8),
        parameters={"T": 0.5},
    )
    (line,) = trace(model, "T", (0.15, 0.8), "second-order")
    T = line.parameter
    assert line.control == pytest.approx(T * np.log(2 * (1 - T) / T), abs=1e-9)
    (end,) = [e for e in line.ends if e.kind == "tricritical"]
    assert (end.parameter, end.control) == pytest.approx((1 / 3, np.log(4) / 3), abs=1e-8)
    lines = trace(model, "T", (0.15, 0.8), "first-order", starts=(0.25,))
    ends = [e for line in lines for e in line.ends if e.kind == "tricritical"]
    assert ends
    assert all(e.parameter == pytest.approx(1 / 3, abs=1e-8) for e in ends)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("q", (-1.0, 1.0), "spinodal"), "q"),
        (("p", (1.0, -1.0), "spinodal"), "1"),
        (("p", (-1.0, 1.0), "binodal"), "binodal"),
    ],
)
def test_bad_input(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        trace(cusp(), *arguments)
