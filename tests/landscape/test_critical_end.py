"""Ends of first-order lines with exact answers, and those of softmax attention."""

from dataclasses import replace

import mpmath
import pytest

from phasetheory.copytask import Setting
from phasetheory.copytask import landscape as copy_landscape
from phasetheory.errors import InputError
from phasetheory.landscape import critical_end, find_phases, landscape_from_expression


def family(expression, variables, control, bounds, control_range, name="p"):
    def at(p):
        return landscape_from_expression(
            expression, variables, control, bounds, control_range, parameters={name: p}
        )

    return at


def check(found, p, u, x):
    assert found.parameter == pytest.approx(p, abs=2e-9 * max(1, abs(p)))
    assert abs(found.parameter - p) <= found.parameter_error + 1e-12
    assert found.control == pytest.approx(u, abs=1e-8)
    assert found.coordinates == pytest.approx(x, abs=1e-4)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_the_cusp(unit):
    """x^4/4 + p x^2/2 - u x ends at p = u = x = 0, in any units of x and S."""
    at = family(
        f"{unit}*((x/{unit})**4/4 + p*(x/{unit})**2/2 - u*x/{unit})",
        ["x"],
        "u",
        {"x": (-3 * unit, 3 * unit)},
        (-1, 1.2),
    )
    check(critical_end(at, (-1.0, 0.5)), 0.0, 0.0, [0.0])


def test_a_curved_coordinate_moves_the_end_with_it():
    """y = x + x^2/4 in place of x, and u shifted by p: the end is at u = p = 0.3."""
    at = family(
        "(x + x**2/4 - 1/4)**4/4 + (p - 3/10)*(x + x**2/4 - 1/4)**2/2 - (u - p)*(x + x**2/4 - 1/4)",
        ["x"],
        "u",
        {"x": (-1.5, 4)},
        (-1, 1.5),
    )
    check(critical_end(at, (-0.5, 0.9)), 0.3, 0.3, [5**0.5 - 2])


def test_the_regular_solution():
    """chi x(1-x) with ideal mixing ends at chi = 2, h = 0, x = 1/2."""
    at = family(
        "x*log(x) + (1-x)*log(1-x) + chi*x*(1-x) - h*x",
        ["x"],
        "h",
        {"x": (0.001, 0.999)},
        (-0.3, 0.4),
        "chi",
    )
    check(critical_end(at, (1.7, 2.6)), 2.0, 0.0, [0.5])


def test_van_der_waals():
    """In reduced units the end is at T = P = v = 1; v = 1/3 + e^y is free of the hard core."""
    at = family(
        "P*(1/3 + exp(y)) - 8*T*y/3 - 3/(1/3 + exp(y))",
        ["y"],
        "P",
        {"y": (-3, 3)},
        (0.5, 1.4),
        "T",
    )
    found = critical_end(at, (0.92, 1.1))
    check(found, 1.0, 1.0, [float(mpmath.log(mpmath.mpf(2) / 3))])


def test_a_stiff_coordinate_shifts_the_end():
    """x^4/4 + p x^2/2 - u x + 50 (y - x^2)^2 + y/2: y = x^2 - 1/200 adds x^2/2, so p = -1."""
    at = family(
        "x**4/4 + p*x**2/2 - u*x + 50*(y - x**2)**2 + y/2",
        ["x", "y"],
        "u",
        {"x": (-3, 3), "y": (-2, 9)},
        (-1, 1.2),
    )
    check(critical_end(at, (-2.0, 0.0)), -1.0, 0.0, [0.0, -0.005])


def test_softmax_attention_at_tree():
    """The end along var_w, against S' = S'' = S''' = 0 in h on the action written anew."""
    L, V = 16, 4

    def along_var_w(var_w):
        return copy_landscape("softmax", Setting(L=L, V=V, var_w=var_w), "tree", (20.0, 2000.0))

    found = critical_end(along_var_w, (0.1, 10.0))

    def action(h, P, var_w):
        a = mpmath.exp(h) / (mpmath.exp(h) + L - 1)
        b, q, lam = L * a, L * (a**2 + (1 - a) ** 2 / (L - 1)), var_w * P / (V * mpmath.mpf(L))
        data = mpmath.mpf(V * (V - 1)) / 2 * mpmath.log(1 + lam * q)
        data -= P / (2 * V * mpmath.mpf(L)) * (V - 1) * lam * b**2 / (1 + lam * q)
        return L * h**2 * (1 - 1 / mpmath.mpf(L)) / 2 + data

    with mpmath.workdps(30):
        start = (found.coordinates[0], found.control, found.parameter)
        exact = mpmath.findroot(
            lambda h, P, v: [mpmath.diff(lambda h: action(h, P, v), h, n) for n in (1, 2, 3)],
            start,
        )
    assert found.parameter == pytest.approx(float(exact[2]), abs=1e-8)
    assert found.control == pytest.approx(float(exact[1]), rel=1e-8)
    assert found.coordinates[0] == pytest.approx(float(exact[0]), abs=1e-5)


@pytest.mark.slow
def test_softmax_attention_at_meanfield():
    """At L = 20, V = 4 the line ends between var_g = 1 and 4; the finder agrees on both sides."""

    def at(var_g):
        setting = Setting(L=20, V=4, var_g=var_g)
        return copy_landscape("softmax", setting, "meanfield", (50.0, 800.0))

    found = critical_end(at, (1.0, 4.0), tolerance=1e-6)
    assert found.parameter == pytest.approx(2.46, abs=0.02)
    beyond = find_phases(at(found.parameter * 1.03)).transitions
    assert [t.order for t in beyond] == ["first"]
    assert beyond[0].control == pytest.approx(found.control, rel=0.03)
    assert find_phases(at(found.parameter * 0.97)).transitions == ()


def test_bad_brackets():
    at = family("x**4/4 + p*x**2/2 - u*x", ["x"], "u", {"x": (-3, 3)}, (-1, 1.2))
    with pytest.raises(InputError, match="ascending"):
        critical_end(at, (0.5, -1.0))
    with pytest.raises(InputError, match="ascending"):
        critical_end(at, (float("nan"), 1.0))
    with pytest.raises(InputError, match=r"no first-order transition at 0\.2 or at 0\.5"):
        critical_end(at, (0.2, 0.5))
    with pytest.raises(InputError, match=r"first order from -1 to -0\.3"):
        critical_end(at, (-1.0, -0.3))
    with pytest.raises(InputError, match="spinodal lies outside"):
        critical_end(lambda p: replace(at(p), control_range=(-0.05, 0.06)), (-1.0, 0.5))
