"""Reading a user's formula. The text is parsed, never executed."""

import ast
import math
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
    return text.isidentifier() and text not in FUNCTIONS and text not in CONSTANTS


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
            if isinstance(op, ast.Pow) and y.is_number and abs(y) > MAX_EXPONENT:
                raise InputError(f"the exponent {y} is too large; at most {MAX_EXPONENT}")
            return _OPERATORS[type(op)](x, y)
        case ast.BinOp(op=ast.BitXor()):
            raise InputError("'^' is not a power here; write x**2")
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](_convert(argument, symbols, depth + 1))
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


def _number(value: float) -> sp.Expr:
    if not math.isfinite(value):
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
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
