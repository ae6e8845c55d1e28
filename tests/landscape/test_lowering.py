"""Lowered formulas against 30 digits of SymPy, where doubles are most at risk."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp

from phasetheory.errors import InputError
from phasetheory.landscape.lowering import lower
from phasetheory.symbolic import (
    linear_derivation,
    logistic,
    parse_expression,
    softmax_derivation,
)
from phasetheory.symbolic.expressions import FUNCTIONS
from phasetheory.symbolic.symbols import L, P, V, c_1, c_G, h, kappa, sigma_g, sigma_w

x, y, T, q = NAMES = sp.symbols("x y T q", real=True)


def exact(expression, arguments, point):
    """30 correct digits; the doubles of the point and of the expression are taken as they are."""
    expression = expression.xreplace({f: sp.Rational(f) for f in expression.atoms(sp.Float)})
    values = {s: sp.Rational(float(p)) for s, p in zip(arguments, point, strict=True)}
    return float(expression.subs(values).evalf(30, maxn=2000))


def arguments_of(expression):
    return [s for s in NAMES if s in expression.free_symbols] or [x]


def check(expression, *points, rel=1e-13):
    """Value, every first derivative and the second derivative in the first argument."""
    arguments = arguments_of(expression)
    function = lower(expression, arguments)

    @jax.jit
    def everything(*at):
        slopes = jax.grad(function, tuple(range(len(at))))(*at)
        return function(*at), slopes, jax.grad(jax.grad(function))(*at)

    formulas = [expression, *map(expression.diff, arguments), expression.diff(arguments[0], 2)]
    for point in points:
        point = tuple(map(float, point))
        value, slopes, bend = everything(*point)
        expected = [exact(formula, arguments, point) for formula in formulas]
        assert float(value) == pytest.approx(expected[0], rel=rel, abs=0), point
        for symbol, slope, right in zip(arguments, slopes, expected[1:-1], strict=True):
            assert float(slope) == pytest.approx(right, rel=10 * rel, abs=1e-15), (symbol, point)
        assert float(bend) == pytest.approx(expected[-1], rel=100 * rel, abs=1e-14), point


# ---- large and small arguments -------------------------------------------------------------------

LARGE = {
    "log(cosh(x))": [(800,), (-800,), (0.3,)],
    "log(cosh(x)**2)": [(800,)],
    "log(2*cosh(x/T) + 3)": [(-800, 1), (800, 0.01), (0.5, 2)],
    "log(exp(x/T) + q - 1)": [(800, 1, 4), (3, 1e-3, 10), (-800, 1, 4), (-2, 1.5, 3)],
    "log(exp(x) + exp(y))": [(800, 799), (-800, -799), (800, -800)],
    "log(1 + exp(x))": [(800,), (2,)],
    "log(exp(x) - 1)": [(800,), (1,)],
    "log(1 + y**2*exp(x))": [(800, 2), (1, 0.4)],
    "log((1 + exp(x))*(2 + exp(-x)))": [(800,), (-800,)],
    "log(1 + exp(exp(x)))": [(7,)],
    "log(1 + exp(log(1 + exp(x))))": [(800,)],
    "log(1 + tanh(x)*exp(x))": [(800,)],
    "x*log(exp(x) + exp(-x))/log(2)": [(-800,), (0.1,)],
    "log(1 + sin(exp(x)))": [(0.2,)],
}


@pytest.mark.parametrize("text", LARGE)
def test_sums_of_exponentials(text):
    """Finite and right, with both derivatives, where the formula as written overflows."""
    check(parse_expression(text, ["x", "y", "T", "q"]), *LARGE[text])


SMALL = [
    ("log(1 + x)", (1e-18,)),
    ("log(1 + x)", (-1e-18,)),
    ("log(1 + x)", (0,)),
    ("log(1 - x)", (1e-18,)),
    ("log(x + y + 1)", (1e-18, -1e-19)),
    ("log(1 + x/y)", (1e-18, 2)),
    ("log(1 + log(1 + x))", (1e-18,)),
    ("log(1 + x**2*y)", (1e-9, 2)),
    ("log(1.0 + x)", (1e-18,)),
    ("log(1 + exp(x))", (-30,)),
    ("log(1 + x*exp(y))", (1e-18, 1)),
]


@pytest.mark.parametrize(("text", "point"), SMALL)
def test_logarithms_next_to_one(text, point):
    """Relative precision for 1e-18, which 1 + x rounds away."""
    check(parse_expression(text, ["x", "y"]), point)


ZERO_WEIGHT = [
    ("log(1 + x*exp(y))", (0, 1)),
    ("log(1 + x**2*exp(y))", (0, 1)),
    ("log(1 + x*exp(-y))", (0, 1)),
    ("log(1 + x**2*cosh(y))", (0, 1)),
    ("log(exp(y) + x*exp(-y))", (0, 0.3)),
    ("log(1 + erf(x)*exp(x))", (0,)),
    ("log(exp(x) + q - 1)", (0.4, 1)),
    ("log(exp(x) + (1 - q)*exp(y))", (0.4, 1.3, 1)),
]


@pytest.mark.parametrize(("text", "point"), ZERO_WEIGHT)
def test_a_term_that_vanishes_keeps_its_derivatives(text, point):
    """An order parameter in front of an exponential is zero in the symmetric phase.

    There the Hessian decides whether the phase is stable, so a dropped term would be a wrong phase
    boundary and no error.
    """
    check(parse_expression(text, ["x", "y", "q"]), point)


def test_logistic():
    """Value to full precision where it is a double; value and derivatives finite everywhere."""
    points = [-800.0, -37.0, -1e-9, 0.0, 2.5, 37.0, 800.0]
    first = lower(logistic(x), [x])
    orders = [jax.jit(f) for f in (first, jax.grad(first), jax.grad(jax.grad(first)))]
    slope = lower(logistic(x).diff(x), [x])  # the formula that the jacobian of the softmax has
    for z in points:
        found = [float(f(z)) for f in orders]
        expected = [exact(logistic(x).diff(x, n).rewrite(sp.exp), [x], (z,)) for n in range(3)]
        assert np.all(np.isfinite(found))
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-16)
        assert found[0] == pytest.approx(expected[0], rel=1e-13, abs=1e-300)
        assert float(slope(z)) == pytest.approx(expected[1], rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_a_formula_may_use(name):
    """Each lowers, agrees with SymPy and has derivatives."""
    plain = parse_expression(f"y*{name}(x)", ["x", "y"])
    function = jax.jit(jax.value_and_grad(lower(plain, [x, y]), (0, 1)))
    plain = plain.replace(logistic, lambda z: 1 / (1 + sp.exp(-z)))
    for point in [(1.7, -0.4)] if name == "acosh" else [(0.37, -0.4), (0.91, 1.2)]:
        value, slopes = function(*point)
        expected = [exact(f, [x, y], point) for f in (plain, plain.diff(x), plain.diff(y))]
        np.testing.assert_allclose([value, *slopes], expected, rtol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_a_whole_number(name):
    """`logistic(2)` and the like are numbers in a formula, not arrays of integers."""
    number = {"atanh": "1/2", "asin": 1, "acos": 1}.get(name, 2)
    expression = parse_expression(f"x + x*{name}({number})", ["x"])
    plain = expression.replace(logistic, lambda z: 1 / (1 + sp.exp(-z)))
    assert float(lower(expression, [x])(3.0)) == pytest.approx(exact(plain, [x], (3,)), rel=1e-13)


# ---- the library's own actions -------------------------------------------------------------------


@pytest.mark.parametrize("key", ["map", "tree"])
def test_linear_actions(key):
    """Value and Hessian at 30 digits, the origin and the neighbourhood of it included."""
    numbers = {L: 16, V: 4, P: 73, kappa: 1, sigma_g: 1, sigma_w: 1}
    order = (c_1, c_G)
    expression = linear_derivation()[key].value.subs(numbers)
    function, hessian = lower(expression, order), sp.hessian(expression, order)
    second = jax.jit(jax.hessian(function, (0, 1)))
    for point in ((0.0, 0.0), (0.3, -0.2), (1e-9, 1e-12), (40.0, -7.0)):
        value = exact(expression, order, point)
        # near the origin the action is a difference of terms of the size of its Hessian
        scale = 1e-13 * max(abs(value), 500 * (point[0] ** 2 + point[1] ** 2))
        assert float(function(*point)) == pytest.approx(value, rel=1e-12, abs=scale)
        expected = [[exact(hessian[i, j], order, point) for j in (0, 1)] for i in (0, 1)]
        np.testing.assert_allclose(np.array(second(*point)), expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("key", ["map", "tree"])
def test_softmax_actions(key):
    """Value and derivative at 30 digits, also where e^h is no double."""
    numbers = {L: 64, V: 4, P: 870, kappa: 1, sigma_g: 1, sigma_w: 1}
    expression = softmax_derivation()[key].value.subs(numbers)
    function = jax.jit(jax.value_and_grad(lower(expression, [h])))
    plain = expression.replace(logistic, lambda z: 1 / (1 + sp.exp(-z)))
    for point in (-800.0, -3.0, 0.0, 1e-12, 2.3, 40.0, 800.0):
        value, slope = function(point)
        assert float(value) == pytest.approx(exact(plain, [h], (point,)), rel=1e-12)
        expected = exact(plain.diff(h), [h], (point,))
        assert float(slope) == pytest.approx(expected, rel=1e-10, abs=1e-10)


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [sp.gamma(x), sp.Function("mystery")(x) + 1, sp.besselj(0, x), sp.Heaviside(x), sp.zeta(x)],
)
def test_unknown_functions_are_named(expression):
    (function,) = expression.atoms(sp.Function)
    with pytest.raises(InputError, match=rf"\b{type(function).__name__}\b"):
        lower(expression, [x])


def test_unknown_functions_inside_a_logarithm_are_named():
    with pytest.raises(InputError, match="zeta"):
        lower(sp.log(1 + sp.exp(sp.zeta(x))), [x])


@pytest.mark.parametrize(
    "expression",
    [sp.Integral(sp.exp(-x * y**2), (y, 0, 1)), sp.Derivative(sp.Function("f")(x), x), sp.I * x],
)
def test_what_is_no_formula_is_refused(expression):
    with pytest.raises(InputError):
        lower(expression, [x])


def test_one_name_means_one_symbol():
    """Same name with other assumptions: an action mixing them would silently use one value."""
    other = sp.Symbol("x", positive=True)
    for expression, arguments in (
        (x + other, [x, other]),
        (x + other, [x]),
        (other, [x]),
        (1 + x, [other]),
    ):
        with pytest.raises(InputError, match="'x'"):
            lower(expression, arguments)


def test_missing_symbols_are_named():
    with pytest.raises(InputError, match="T, q"):
        lower(x + sp.exp(q / T), [x])


# ---- numbers -------------------------------------------------------------------------------------


def test_results_have_64_bits():
    """For scalars and arrays, also through logsumexp, jit and vmap."""
    points = jnp.linspace(0.1, 2, 5), jnp.full(5, 0.7)
    for expression in (x * y - sp.log(1 + x * y), sp.log(sp.exp(x) + sp.exp(y)) + sp.exp(x)):
        function = lower(expression, [x, y])
        expected = [exact(expression, [x, y], pair) for pair in zip(*points, strict=True)]
        found = jax.jit(jax.vmap(function))(*points)
        assert found.dtype == jax.jit(function)(0.25, 0.5).dtype == jnp.float64
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_arrays_and_scalars_mix():
    """Arguments of different shapes broadcast, in a sum of exponentials too."""
    function = jax.jit(lower(sp.log(sp.exp(x) + q * sp.exp(y) + 1), [x, y, q]))
    a, b = jnp.arange(3.0)[:, None], jnp.arange(4.0)
    np.testing.assert_allclose(
        function(a, b, 0.5), np.log(np.exp(a) + 0.5 * np.exp(b) + 1), rtol=1e-14
    )


@pytest.mark.parametrize(
    "value", ["0.30000000000000004", "0.1234567890123456789", "1e-300", "123456789.123456789"]
)
def test_decimals_keep_every_bit(value):
    """The double that the text means, not 15 digits of it."""
    assert float(lower(parse_expression(f"{value}*x", ["x"]), [x])(1.0)) == float(value)


@pytest.mark.parametrize(
    "text",
    ["10**20*x", "2**70*x + x**3", "10**-20*x", "x/3**50", "7**40/5**60*x", "9007199254740993*x"],
)
def test_whole_numbers_beyond_64_bits(text):
    expression = parse_expression(text, ["x"])
    check(expression, (1.5,))


def test_the_absolute_value_that_a_root_of_a_square_is():
    """SymPy turns sqrt(x**2) of a real x into |x|; a formula may contain it."""
    function = lower(parse_expression("sqrt(x**2) + 1", ["x"]), [x])
    assert float(function(-2.0)) == 3
    assert float(jax.grad(function)(-2.0)) == -1


def test_constants_have_derivatives():
    """An action without its variable is flat, not an error."""
    function = lower(parse_expression("3", ["x"]), [x])
    assert float(function(0.7)) == 3
    assert float(jax.grad(function)(0.7)) == 0


def test_names_of_generated_variables_are_free():
    """Common subexpressions are named x0, x1, ... inside; the user's x0 is another thing."""
    x0, x1 = sp.symbols("x0 x1", real=True)
    shared = sp.sin(x0 * x1) + 1
    expression = shared**2 + sp.sqrt(shared) + sp.exp(shared) * x0
    expected = expression.subs({x0: 0.3, x1: 1.7}).evalf()
    assert float(lower(expression, [x0, x1])(0.3, 1.7)) == pytest.approx(float(expected), rel=1e-13)


def test_arguments_keep_their_order_and_equal_expressions_their_function():
    function = lower(x - 2 * y, [y, x])
    assert float(function(1.0, 10.0)) == 8
    assert len(inspect.signature(function).parameters) == 2
    assert lower(x - 2 * y, (y, x)) is function
    assert lower(x - 2 * y, [x, y]) is not function
