"""The closed forms against numerical roots of the actions and against the phase finder."""

import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq
from scipy.special import lambertw

from phasetheory.copytask import Setting, landscape
from phasetheory.landscape import find_phases
from phasetheory.symbolic import linear_derivation, thresholds_derivation
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.thresholds import x

SETTINGS = [
    {"L": 16, "V": 4},
    {"L": 64, "V": 16, "var_g": 0.25, "kappa": 3.0},
    {"L": 300, "V": 7, "var_g": 9.0, "var_w": 0.5},
]


def value(step, setting: Setting, expression=None):
    expression = thresholds_derivation()[step].value if expression is None else expression
    numbers = {
        sym.L: setting.L,
        sym.V: setting.V,
        sym.kappa: setting.kappa,
        sym.sigma_g: setting.sigma_g,
        sym.sigma_w: setting.sigma_w,
    }
    return expression.subs(numbers)


def onset(setting, level="tree", P_range=None):
    (transition,) = find_phases(landscape("linear", setting, level, P_range)).transitions
    return transition.control


@pytest.mark.parametrize("values", SETTINGS, ids=str)
def test_exact_onset(values):
    """The smallest root of the determinant is where the phase finder sees the onset."""
    setting = Setting(**values)
    aa, gg, ag = (value("", setting, e.rhs) for e in thresholds_derivation()["onset_hessian"].value)
    roots = sp.Poly(sp.expand(aa * gg - ag**2), x).nroots(n=20)
    smallest = min(float(sp.re(z)) for z in roots if abs(sp.im(z)) < 1e-12 and sp.re(z) > 0)
    assert onset(setting) == pytest.approx(smallest * setting.kappa / setting.var_w, rel=1e-8)


def test_pooling_curvature_by_finite_differences():
    """K at any x against second differences of the tree action in alpha at c_G = 0."""
    setting = Setting(L=16, V=4, kappa=2.0, var_g=0.7, var_w=1.3)
    action = value("", setting, linear_derivation()["tree_in_alpha"].value).subs(sym.c_G, 0)
    S = sp.lambdify((sym.alpha, sym.P), action, "numpy")
    K = sp.lambdify(x, value("onset_pooling", setting), "numpy")
    step = 1e-4
    for P in (10.0, 80.0, 400.0):
        second = (S(step, P) - 2 * S(0, P) + S(-step, P)) / step**2
        assert K(P * setting.var_w / setting.kappa) == pytest.approx(second, rel=1e-6)


def test_limit_in_which_the_logarithms_decide():
    """With growing sigma_g^2 the onset goes to kappa V^2 (1 + (V-1)/L)/(1 + (V-1)/L^2)."""
    errors = []
    for var_g in (1e2, 1e4, 1e6):
        setting = Setting(L=64, V=16, var_g=var_g)
        K = sp.lambdify(x, value("onset_pooling", setting), "numpy")
        root = brentq(K, 1.0, 1e5)
        errors.append(root / float(value("onset_logs", setting)) - 1)
    # the first correction is proportional to 1/sigma_g^2
    assert errors[1] / errors[2] == pytest.approx(100, rel=0.01)
    assert 0 < errors[2] < 2e-5
    exact = 16**2 * (1 + 15 / 64) / (1 + 15 / 64**2)
    assert float(value("onset_logs", setting)) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("values", SETTINGS, ids=str)
def test_prior_limit_is_exact_in_alpha_at_map(values):
    """The curvature of the map action in alpha vanishes at the closed form."""
    setting = Setting(**values)
    action = linear_derivation()["map_in_alpha"].value
    for step, coordinate in (("onset_prior", sym.alpha), ("copying_crossover", sym.c_G)):
        curvature = sp.diff(action, coordinate, 2).subs({sym.alpha: 0, sym.c_G: 0})
        K = sp.lambdify(sym.P, value("", setting, curvature), "numpy")
        closed = float(value(step, setting))
        assert brentq(K, closed / 2, closed * 2) == pytest.approx(closed, rel=1e-10)


def test_large_L_limits_of_the_prior_forms():
    setting = Setting(L=10**5, V=1000, var_g=4.0, var_w=0.25, kappa=3.0)
    scale = setting.kappa / (setting.sigma_g * setting.sigma_w)
    prior, copying = (float(value(s, setting)) for s in ("onset_prior", "copying_crossover"))
    assert prior == pytest.approx(scale * setting.V * setting.L, rel=1e-6)
    assert copying == pytest.approx(scale * setting.L**1.5 * setting.V**0.5, rel=1e-3)


def test_softmax_closed_form_is_the_minimum_of_the_cost():
    """h* and P* = 2 kappa min(cost), by direct minimisation on a fine grid."""
    setting = Setting(L=1000, V=8, var_g=2.0, var_w=0.5)
    h_star = float(value("softmax_logit", setting))
    assert h_star == pytest.approx(lambertw(2 * 8 * 1000 * 2.0 / 0.5).real / 2, rel=1e-12)
    h = np.linspace(0.5 * h_star, 1.5 * h_star, 200_001)
    cost = 1000 * h**2 / (2 * 2.0) + 8 * 1000**2 * np.exp(-2 * h) / (2 * 0.5)
    assert h[np.argmin(cost)] == pytest.approx(h_star, rel=1e-4)
    closed = float(value("softmax_threshold", setting).subs(sym.h, h_star))
    assert closed == pytest.approx(2 * cost.min() * 8 / 7, rel=1e-8)


@pytest.mark.parametrize(("V", "within"), [(1000, 0.02), (32, 0.15), (4, 0.6)])
def test_softmax_closed_form_against_the_solver(V, within):
    """Three decades of L at the level map. The closed form wants V well above h* (between 4 and 10
    here): at V = 4 it is 40 % too low."""
    for L in (10**4, 10**5, 10**6):
        setting = Setting(L=L, V=V)
        (transition,) = find_phases(landscape("softmax", setting, "map")).transitions
        closed = value("softmax_threshold", setting)
        closed = float(closed.subs(sym.h, value("softmax_logit", setting)))
        assert transition.control == pytest.approx(closed, rel=within)


def test_softmax_limit():
    """P* / (L ln^2 L / 4) goes to one, slowly (corrections of order lnln L / ln L)."""
    ratios = []
    for exponent in (6, 30, 300, 3000):
        numbers = {sym.V: 4, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1}
        L = sp.Integer(10) ** exponent
        steps = thresholds_derivation()
        logit = steps["softmax_logit"].value.subs(numbers).subs(sym.L, L).evalf(30)
        closed = steps["softmax_threshold"].value.subs(sym.h, logit).subs(numbers).subs(sym.L, L)
        limit = steps["softmax_limit"].value.subs(numbers).subs(sym.L, L)
        ratios.append(float(closed.evalf(30) / limit.evalf(30)))
    assert abs(ratios[-1] - 1) < 0.01
    assert np.all(np.diff(np.abs(np.array(ratios) - 1)) < 0)


def test_softmax_limit_against_the_map_action():
    """P* of the map action itself over ln^2 L L/4 goes to V/(V - 1), at L up to 10^1000."""
    mpmath.mp.dps = 40

    def ratio(exponent, V):
        L = mpmath.mpf(10) ** exponent

        def S(h, P):
            a = 1 / (1 + (L - 1) * mpmath.exp(-h))
            q = L * (a * a + (1 - a) ** 2 / (L - 1))
            lam = P / (V * L)
            gain = lam * L**2 / (1 + lam * L) + (V - 1) * lam * (L * a) ** 2 / (1 + lam * q)
            return (L - 1) * h * h / 2 - P / (2 * V * L) * gain

        def coexistence(h):
            low, high = L, L * mpmath.log(L) ** 2 * 100
            for _ in range(60):
                middle = mpmath.sqrt(low * high)
                low, high = (middle, high) if S(h, middle) > S(0, middle) else (low, middle)
            return high

        start = mpmath.log(L) / 2
        lowest = min(coexistence(start + mpmath.mpf(k) / 5) for k in range(45))
        return float(lowest / (L * mpmath.log(L) ** 2 / 4))

    for V in (4, 32):
        errors = [abs(ratio(e, V) * (V - 1) / V - 1) for e in (30, 100, 1000)]
        assert errors[0] > errors[1] > errors[2]
        assert errors[2] < 0.01
