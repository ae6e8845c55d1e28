"""From a SymPy expression to a JAX function that does not overflow where the formula does not."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import sympy as sp
from sympy.printing.numpy import JaxPrinter

import phasetheory._jax  # noqa: F401  (64 bits)
from phasetheory.errors import InputError


class _LogSumExp(sp.Function):
    """log(sum_i w_i exp(f_i)), arguments f_1, w_1, f_2, w_2, ..."""


class _Log1p(sp.Function):
    """log(1 + x), exact for small x."""

    nargs = 1


class _Total(sp.Function):
    """The sum of all entries of an array."""

    nargs = 1


def _logsumexp(*args):
    """Largest term apart from the rest, so that small terms and vanishing weights keep their digits
    and their derivatives (`jax.scipy.special.logsumexp` drops a term of weight zero whole)."""
    arrays = jnp.broadcast_arrays(*(jnp.asarray(z, float) for z in args))
    f, w = jnp.stack(arrays[::2]), jnp.stack(arrays[1::2])
    size = jnp.where(w == 0, -jnp.inf, f + jnp.log(jnp.abs(jnp.where(w == 0, 1.0, w))))
    place = jnp.arange(len(f)).reshape((-1,) + (1,) * (f.ndim - 1))
    largest = place == jnp.argmax(jax.lax.stop_gradient(size), axis=0)
    top = jnp.sum(jnp.where(largest, f, 0.0), axis=0)
    others = w * jnp.exp(jnp.where(largest, 0.0, f - top))
    return top + jnp.log1p(jnp.sum(jnp.where(largest, w - 1, others), axis=0))


_SPECIAL: dict[str, Callable] = {
    "_LogSumExp": _logsumexp,
    "_Log1p": jnp.log1p,
    "_Total": jnp.sum,
    "logistic": lambda z: jax.nn.sigmoid(jnp.asarray(z, float)),
    "Abs": jnp.abs,
    "erf": jsp.erf,
    "erfc": jsp.erfc,
    "loggamma": jsp.gammaln,
}
_ARITHMETIC = (sp.Add, sp.Mul, sp.Pow, sp.Symbol, sp.Number, sp.NumberSymbol)
_ELEMENTARY = (
    sp.exp, sp.log, sp.sin, sp.cos, sp.tan, sp.asin, sp.acos, sp.atan, sp.sinh, sp.cosh, sp.tanh,
    sp.asinh, sp.acosh, sp.atanh,
)  # fmt: skip


class _Printer(JaxPrinter):
    """Numbers as Python reads them back: all digits of a double, no integer beyond 64 bits."""

    def _print_Float(self, expr):
        return repr(float(expr))

    def _print_Integer(self, expr):
        return str(expr) if abs(expr) < 2**53 else repr(float(expr))


def lower(expression: sp.Expr, arguments: Sequence[sp.Symbol | sp.IndexedBase]) -> Callable:
    """Compile an expression to a JAX function of its arguments, in that order.

    An `IndexedBase` among the arguments is an array of one axis; a `Sum` over its index is the sum
    over all its entries.

    ``log`` of a sum of exponentials (also behind ``cosh``) becomes ``logsumexp``, ``log(1 + x)``
    becomes ``log1p``. Equal expressions give the same function object, so that code compiled for
    it is found again.

    Raises:
        InputError: for a symbol that is no argument, two symbols of one name, or a function that
            has no counterpart in JAX.
    """
    whole: Any = sp.sympify(expression).replace(sp.Sum, _total)
    return _lower(whole, tuple(_array(a) for a in arguments))


def _array(argument: Any) -> Any:
    return sp.Symbol(str(argument)) if isinstance(argument, sp.IndexedBase) else argument


def _total(summand: Any, limits: Any) -> Any:
    """A `Sum` over the index of arrays, as a function of the whole arrays."""
    index = limits[0]
    entries: list[Any] = [e for e in summand.atoms(sp.Indexed) if e.indices == (index,)]
    whole = summand.subs({entry: _array(entry.base) for entry in entries})
    if not entries or whole.has(index):
        raise InputError(f"a sum over {index} must be over all entries of an array")
    return _Total(whole)


@cache
def _lower(expression: sp.Expr, arguments: tuple[sp.Symbol, ...]) -> Callable:
    names = [str(symbol) for symbol in expression.free_symbols | set(arguments)]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two different symbols are called {name!r}")
    missing = expression.free_symbols - set(arguments)
    if missing:
        raise InputError(f"no value is given for {', '.join(sorted(map(str, missing)))}")
    for node in sp.preorder_traversal(expression):
        known = isinstance(node, (*_ARITHMETIC, *_ELEMENTARY)) or type(node).__name__ in _SPECIAL
        if not known or node is sp.I:
            raise InputError(f"{type(node).__name__} cannot be evaluated")
    stable = expression.replace(sp.log, _stable_log)
    if not stable.free_symbols:
        value = float(sp.N(stable))
        return lambda *_: jnp.asarray(value)
    return sp.lambdify(
        arguments,
        stable,
        modules=[_SPECIAL, "jax"],
        printer=_Printer(
            {
                "fully_qualified_modules": False,
                "inline": True,
                "allow_unknown_functions": True,
                "user_functions": {name: name for name in _SPECIAL},
            }
        ),
        cse=True,
        dummify=True,
    )


def _stable_log(x: sp.Expr) -> Any:
    if x.has(sp.exp, sp.cosh):
        summands = _exponential_sum(x)
        if summands is not None:
            return _LogSumExp(*(part for pair in summands for part in pair))
    if isinstance(x, sp.Add) and any(term.is_Number and float(term) == 1 for term in x.args):
        return _Log1p(sp.Add(*(term for term in x.args if not term.is_Number)))
    return sp.log(x)


def _exponential_sum(x: Any) -> list[tuple[Any, Any]] | None:
    """(exponent, weight) of each summand, or None where x is no plain sum of exponentials."""
    x = sp.expand(x.replace(sp.cosh, lambda y: (sp.exp(y) + sp.exp(-y)) / 2), power_exp=False)
    summands = []
    for term in sp.Add.make_args(x):
        factors = sp.Mul.make_args(term)
        exponents = [f.args[0] for f in factors if isinstance(f, sp.exp)]
        others = [f for f in factors if not isinstance(f, sp.exp)]
        weight = sp.Mul(*others)  # pyright: ignore[reportArgumentType]
        if weight.has(sp.exp):
            return None
        summands.append((sp.Add(*exponents), weight))  # pyright: ignore[reportArgumentType]
    return summands
