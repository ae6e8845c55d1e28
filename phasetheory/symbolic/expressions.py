"""Reading a user's formula. The text is parsed, never executed."""

import ast
import keyword
import math
import unicodedata
import warnings
from collections.abc import Iterable

import sympy as sp

from phasetheory.errors import InputError
from phasetheory.symbolic.functions import logistic

FUNCTIONS = {
    "exp": sp.exp,
    "log": sp.log,
    "ln": sp.log,
    "sqrt": sp.sqrt,
    "sin": sp.sin,
    "cos": sp.cos,
    "tan": sp.tan,
    "asin": sp.asin,
    "acos": sp.acos,
    "atan": sp.atan,
    "sinh": sp.sinh,
    "cosh": sp.cosh,
    "tanh": sp.tanh,
    "asinh": sp.asinh,
    "acosh": sp.acosh,
    "atanh": sp.atanh,
    "erf": sp.erf,
    "erfc": sp.erfc,
    "loggamma": sp.loggamma,
    "logistic": logistic,
}
CONSTANTS = {"pi": sp.pi, "E": sp.E}

#: Longest formula and deepest nesting accepted, so that no input can hang or overflow the parser.
MAX_LENGTH = 20_000
MAX_DEPTH = 200
MAX_EXPONENT = 1_000
MAX_BITS = 5_000

_OPERATORS = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.Div: lambda x, y: x / y,
    ast.Pow: lambda x, y: x**y,
}
_SIGNS = {ast.UAdd: lambda x: x, ast.USub: lambda x: -x}


def is_name(text: str) -> bool:
    """Whether a text can name a variable: an identifier that is no function or constant."""
    # Python reads some letters as others (NFKC), so a formula could not use such a name
    usable = text.isidentifier() and not keyword.iskeyword(text)
    usable = usable and unicodedata.normalize("NFKC", text) == text
    return usable and text not in FUNCTIONS and text not in CONSTANTS


def parse_expression(text: str, names: Iterable[str]) -> sp.Expr:
    """Turn a formula into a SymPy expression of real symbols.

    Args:
        text: the formula in Python notation; ``^`` is not a power, ``**`` is.
        names: the variables, control and parameters it may use.

    Returns:
        The expression; each name is a `sympy.Symbol` with ``real=True``.

    Raises:
        InputError: for anything but arithmetic on the given names, numbers and `FUNCTIONS`.
    """
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"the expression has {len(text)} characters; at most {MAX_LENGTH} are read"
        )
    symbols = {name: sp.Symbol(name, real=True) for name in names}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = f" at column {error.offset}" if isinstance(error, SyntaxError) else ""
        raise InputError(f"the expression is not a formula{place}: {_short(text)}") from None
    try:
        expression = _convert(tree.body, symbols, 0)
    except RecursionError:
        raise InputError("the expression is nested too deeply") from None
    if expression.has(sp.nan, sp.zoo, sp.oo, -sp.oo):
        raise InputError(f"the expression is not finite (a division by zero?): {_short(text)}")
    if expression.has(sp.I):
        raise InputError(f"the expression is not real (a root of a negative?): {_short(text)}")
    return expression


def _convert(node: ast.AST, symbols: dict[str, sp.Symbol], depth: int) -> sp.Expr:
    if depth > MAX_DEPTH:
        raise InputError("the expression is nested too deeply")
    match node:
        case ast.Constant(value=bool()):
            raise InputError(f"{node.value} is no number; write 0 or 1")
        case ast.Constant(value=int() | float()):
            return _number(node.value)
        case ast.Name(id=name):
            return _name(name, symbols)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _SIGNS:
            return _SIGNS[type(op)](_convert(operand, symbols, depth + 1))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            x, y = (_convert(side, symbols, depth + 1) for side in (left, right))
            if isinstance(op, ast.Pow) and y.is_number:
                _check_power(x, y)
            if isinstance(op, ast.Div) and y.is_zero:
                raise InputError("the expression divides by zero")
            return _check_constant(_OPERATORS[type(op)](x, y))
        case ast.BinOp(op=ast.BitXor()):
            raise InputError("'^' is not a power here; write x**2")
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            return _apply(name, _convert(argument, symbols, depth + 1))
        case ast.Call(func=ast.Name(id=name)):
            if name in FUNCTIONS:
                raise InputError(f"{name} takes exactly one argument")
            raise InputError(
                f"unknown function {_short(name)!r} in the expression; known: "
                f"{', '.join(FUNCTIONS)}"
            )
        case _:
            raise InputError(
                "only numbers, names, + - * / **, parentheses and functions are allowed in an "
                f"expression, not {_short(ast.unparse(node))!r}"
            )


def _apply(name: str, argument: sp.Expr) -> sp.Expr:
    if name == "loggamma" and argument.is_Integer:
        argument = sp.Float(argument)  # of a whole number SymPy would form the factorial
    try:
        value = FUNCTIONS[name](argument)
    except (OverflowError, ValueError, MemoryError):
        raise InputError(f"{name}({_short(str(argument))}) is too large") from None
    return _check_constant(value)


def _double(x: sp.Expr) -> complex:
    """A constant in double precision; NaN where it has no value there."""
    try:
        return complex(x)
    except (OverflowError, TypeError, ValueError, MemoryError):
        return complex(math.nan)


def _check_power(base: sp.Expr, exponent: sp.Expr) -> None:
    """Refuse powers that would take long to form."""
    size = abs(_double(exponent))
    if not size <= MAX_EXPONENT:
        raise InputError(f"an exponent in the expression is larger than {MAX_EXPONENT}")
    if base.is_Rational and (base.p.bit_length() + base.q.bit_length()) * size > MAX_BITS:
        raise InputError("a power in the expression is too large for double precision")


def _check_constant(x: sp.Expr) -> sp.Expr:
    """Refuse a constant, also an intermediate one, that is not finite, not real or too large."""
    if x.is_number:
        if x.has(sp.nan, sp.zoo, sp.oo, -sp.oo, sp.AccumBounds):
            raise InputError("the expression is not finite (a division by zero?)")
        value = _double(x)
        if not math.isfinite(abs(value)):
            raise InputError("a number in the expression is too large for double precision")
        if abs(value.imag) > 1e-9 * abs(value):
            raise InputError("the expression is not real (a root of a negative number?)")
    return x


def _number(value: float) -> sp.Expr:
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise InputError("a number in the expression is too large for double precision")
    if isinstance(value, int) and abs(value) > 2**53:
        return sp.Float(value)
    return sp.Integer(value) if isinstance(value, int) else sp.Float(value)


def _name(name: str, symbols: dict[str, sp.Symbol]) -> sp.Expr:
    if name in symbols:
        return symbols[name]
    if name in CONSTANTS:
        return CONSTANTS[name]
    if name in FUNCTIONS:
        raise InputError(f"{name} is a function; write {name}(...)")
    raise InputError(
        f"unknown name {_short(name)!r} in the expression; declared: {', '.join(symbols)}"
    )


def _short(text: str, limit: int = 60) -> str:
    text = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"
