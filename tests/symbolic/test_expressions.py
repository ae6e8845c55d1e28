"""Reading formulas: right numbers for arithmetic, `InputError` and nothing else for the rest."""

import json
import math
import random
import select
import subprocess
import sys
from fractions import Fraction

import pytest
import sympy as sp
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from phasetheory.errors import InputError
from phasetheory.symbolic.expressions import (
    CONSTANTS,
    FUNCTIONS,
    MAX_LENGTH,
    is_name,
    parse_expression,
)

POINT = {"x": Fraction(3, 7), "y": Fraction(-5, 2), "z": Fraction(11)}
X = sp.Symbol("x", real=True)

# ---- random arithmetic, exactly ------------------------------------------------------------------
# A tree is ("n", int), ("v", name), ("-", t), ("+", t) or (op, left, right).

PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "**": 4}
LEAVES = st.one_of(
    st.tuples(st.just("n"), st.integers(0, 20)), st.tuples(st.just("v"), st.sampled_from("xyz"))
)
CONSTANT_LEAVES = st.tuples(st.just("n"), st.integers(0, 20))
EXPONENTS = st.integers(-4, 4).map(lambda n: ("n", n) if n >= 0 else ("-", ("n", -n)))


def grow(children):
    return st.one_of(
        st.tuples(st.sampled_from("+-*/"), children, children),
        st.tuples(st.just("**"), children, EXPONENTS),
        st.tuples(st.sampled_from("+-"), children),
    )


def to_text(tree, rng, least=0):
    """The tree as text with the fewest parentheses Python needs, plus some by chance."""
    kind, *parts = tree
    if kind == "n":
        text, strength = str(parts[0]), 5
    elif kind == "v":
        text, strength = parts[0], 5
    elif len(parts) == 1:
        text, strength = kind + to_text(parts[0], rng, 3), 3
    else:
        strength = PRECEDENCE[kind]
        around = (5, 3) if kind == "**" else (strength, strength + 1)
        left, right = (to_text(*pair) for pair in zip(parts, (rng, rng), around, strict=True))
        gap = " " * rng.randrange(2)
        text = f"{left}{gap}{kind}{gap}{right}"
    return f"({text})" if strength < least or rng.random() < 0.1 else text


def value_of(tree, point):
    """Exact evaluation by Fraction; a KeyError for a name that has no value."""
    kind, *parts = tree
    if kind == "n":
        return Fraction(parts[0])
    if kind == "v":
        return point[parts[0]]
    values = [value_of(part, point) for part in parts]
    if len(values) == 1:
        return values[0] if kind == "+" else -values[0]
    x, y = values
    if kind == "+":
        return x + y
    if kind == "-":
        return x - y
    if kind == "*":
        return x * y
    return x / y if kind == "/" else x ** int(y)


def has_broken_constant(tree):
    """Whether some part without names divides by zero."""
    try:
        value_of(tree, {})
    except ZeroDivisionError:
        return True
    except KeyError:
        return any(has_broken_constant(part) for part in tree[1:] if isinstance(part, tuple))
    return False


@settings(derandomize=True, max_examples=300, deadline=None)
@given(tree=st.recursive(LEAVES, grow, max_leaves=14), seed=st.integers(0, 99))
def test_arithmetic_means_what_it_says(tree, seed):
    """Text of a random tree: read, evaluated at a rational point, exactly the tree's value."""
    text = to_text(tree, random.Random(seed))
    try:
        expected = value_of(tree, POINT)
    except ZeroDivisionError:
        assume(has_broken_constant(tree))  # else SymPy may have cancelled it: 1 for x/x
        with pytest.raises(InputError):
            parse_expression(text, POINT)
        return
    found = parse_expression(text, POINT)
    values = {sp.Symbol(k, real=True): sp.Rational(v) for k, v in POINT.items()}
    assert found.subs(values) == sp.Rational(expected), text


@settings(derandomize=True, max_examples=300, deadline=None)
@given(tree=st.recursive(CONSTANT_LEAVES, grow, max_leaves=8))
@example(tree=("/", ("n", 1), ("/", ("n", 1), ("n", 0))))
@example(tree=("**", ("n", 0), ("-", ("n", 1))))
def test_constants_divide_by_zero_or_have_the_exact_value(tree):
    """InputError if and only if exact arithmetic meets a division by zero anywhere."""
    text = to_text(tree, random.Random(0))
    try:
        expected = value_of(tree, {})
    except ZeroDivisionError:
        with pytest.raises(InputError):
            parse_expression(text, [])
        return
    assert parse_expression(text, []) == sp.Rational(expected), text


def grow_positive(children):
    names = st.sampled_from(["sqrt", "atan", "tanh", "erf", "asinh", "logistic", "log1p"])
    return st.one_of(
        st.tuples(st.sampled_from("+*/"), children, children), st.tuples(names, children)
    )


POSITIVE = st.recursive(
    st.one_of(st.just("x"), st.floats(0.25, 4.0).map(repr)), grow_positive, max_leaves=10
)
DOUBLE = {
    **{name: getattr(math, name) for name in FUNCTIONS if hasattr(math, name)},
    "ln": math.log,
    "loggamma": math.lgamma,
    "logistic": lambda z: 1 / (1 + math.exp(-z)),
    "log1p": math.log1p,
    "+": lambda x, y: x + y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
}


@settings(derandomize=True, max_examples=150, deadline=None)
@given(tree=POSITIVE, x=st.floats(0.25, 4.0))
def test_functions_and_decimals_mean_what_they_say(tree, x):
    """Trees of positive numbers, where doubles lose nothing: equal to `math` to 1e-11."""

    def text(t):
        if isinstance(t, str):
            return t
        kind, *parts = (t[0], *map(text, t[1:]))
        if kind == "log1p":
            return f"log(1 + {parts[0]})"
        return f"({parts[0]} {kind} {parts[1]})" if len(parts) == 2 else f"{kind}({parts[0]})"

    def number(t):
        if isinstance(t, str):
            return x if t == "x" else float(t)
        return DOUBLE[t[0]](*map(number, t[1:]))

    expected = number(tree)
    assume(1e-100 < expected < 1e100)
    found = parse_expression(text(tree), ["x"]).subs(X, sp.Float(x, 30)).evalf(25)
    assert float(found) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_against_the_standard_library(name):
    for point in {"acosh": (1.37, 40.0)}.get(name, (0.37, 0.93)):
        found = parse_expression(f"{name}(x)", ["x"]).subs(X, point).evalf(20)
        assert float(found) == pytest.approx(DOUBLE[name](point), rel=1e-13)
        literal = parse_expression(f"{name}({point!r})", []).evalf(20)
        assert float(literal) == pytest.approx(DOUBLE[name](point), rel=1e-13)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(value=st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_decimals_keep_every_bit(value):
    assert float(parse_expression(repr(value), [])) == value


@settings(derandomize=True, max_examples=200, deadline=None)
@given(value=st.one_of(st.integers(0, 2**60), st.integers(0, 10**300)))
def test_integers_are_read_to_double_precision(value):
    found = parse_expression(str(value), [])
    assert float(found) == float(value)
    assert value > 2**53 or found == value


def test_constants_and_names():
    assert parse_expression("pi + E", []) == sp.pi + sp.E
    assert parse_expression("pi", ["pi_"]) == sp.pi
    assert parse_expression(" x ", ["x"]) == X  # real, and blanks do not matter
    assert parse_expression("(\nx\n+ 1)", ["x"]) == X + 1
    assert parse_expression("α*λ_1", ["α", "λ_1"]) == sp.Symbol("α", real=True) * sp.Symbol(
        "λ_1", real=True
    )
    assert parse_expression("1_000*0x10", []) == 16_000


@pytest.mark.parametrize(
    "name", ["x", "λ", "c_G", "_", "exp", "pi", "E", "1x", "", "a b", "lambda", "None", "if", "ﬁ"]
)
def test_a_name_that_is_accepted_can_be_used(name):
    """`is_name` promises that a formula can contain the variable."""
    if is_name(name):
        assert parse_expression(f"2*{name}", [name]) == 2 * sp.Symbol(name, real=True)


def test_ordinary_names_are_names():
    assert all(map(is_name, ["x", "λ", "c_G", "_", "I", "S", "gamma", "oo", "match"]))
    assert not any(map(is_name, [*FUNCTIONS, *CONSTANTS, "1x", "", "a b", "x.y"]))


@pytest.mark.parametrize("name", ["I", "S", "N", "oo", "zoo", "gamma", "beta", "Q", "type"])
def test_names_mean_the_users_variable(name):
    """Also where SymPy or Python has an object of that name."""
    assert parse_expression(f"{name}**2", [name]) == sp.Symbol(name, real=True) ** 2
    with pytest.raises(InputError, match=name):
        parse_expression(name, ["x"])


# ---- what must be refused ------------------------------------------------------------------------

WORKER = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from phasetheory.errors import InputError
from phasetheory.symbolic.expressions import parse_expression
print("ready", flush=True)
for line in sys.stdin:
    text, start = json.loads(line), time.perf_counter()
    try:
        parse_expression(text, ["x", "y"])
        outcome = "accepted", ""
    except InputError as error:
        outcome = "InputError", str(error)
    except BaseException as error:
        outcome = type(error).__name__, str(error)[:200]
    print(json.dumps([*outcome, time.perf_counter() - start]), flush=True)
"""


class Worker:
    """Another process that reads formulas, so that one which hangs can be ended."""

    def __init__(self):
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.answer(60) == "ready"

    def answer(self, seconds):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return self.process.stdout.readline().strip() if ready else None

    def read(self, text):
        if self.process is None:
            self.start()
        self.process.stdin.write(json.dumps(text) + "\n")
        self.process.stdin.flush()
        answer = self.answer(2.5)
        if not answer:
            self.stop()
            return "no answer within 2.5 s", "", 2.5
        return json.loads(answer)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
            self.process = None


@pytest.fixture(scope="module")
def worker():
    worker = Worker()
    yield worker
    worker.stop()


REFUSED = {
    # no arithmetic at all
    "attribute": "x.real",
    "attribute of a number": "(1).__class__",
    "class tree": "().__class__.__bases__[0].__subclasses__()",
    "import": "__import__('os').system('echo no')",
    "import of a name": "__import__(x)",
    "dunder name": "__builtins__",
    "eval": "eval('1')",
    "getattr": "getattr(x, y)",
    "open": "open(x)",
    "lambda": "lambda: x",
    "lambda called": "(lambda v: v)(x)",
    "list comprehension": "[x for x in y]",
    "generator": "sum(x for _ in y)",
    "set comprehension": "{x for x in y}",
    "list": "[x]",
    "tuple": "x, y",
    "empty tuple": "()",
    "dict": "{x: y}",
    "string": "'x'",
    "bytes": "b'x'",
    "string times number": "'x' * 3",
    "function of a string": "exp('1')",
    "f-string": "f'{x}'",
    "f-string with code": "f'{__import__(\"os\")}'",
    "walrus": "(x := 1)",
    "await": "await x",
    "yield": "(yield x)",
    "subscript": "x[0]",
    "slice": "x[::2]",
    "keyword argument": "exp(x=1)",
    "keyword argument too": "log(x, base=2)",
    "two arguments": "log(x, 2)",
    "no argument": "exp()",
    "star": "exp(*x)",
    "double star": "exp(**x)",
    "starred": "*x",
    "conditional": "x if y else 1",
    "call of a call": "exp(x)(y)",
    "call of a number": "2(x)",
    "implicit product": "2x",
    "function without call": "exp + 1",
    "function as argument": "exp(log)",
    "unknown function": "factorial(9)",
    "gamma": "gamma(x)",
    "Function": "Function(x)",
    "sympify": "sympify(x)",
    "abs": "abs(x)",
    "unknown name": "q",
    "constant called": "pi(x)",
    "variable called": "x(y)",
    "imaginary unit": "I",
    # Python constants and operators that are no numbers
    "complex": "1j",
    "complex sum": "1 + 2j*x",
    "nan": "nan",
    "inf": "inf",
    "oo": "oo",
    "True": "True",
    "minus True": "-True",
    "None": "None",
    "Ellipsis": "...",
    "comparison": "x < y",
    "equality": "x == 1",
    "and": "x and y",
    "not": "not x",
    "bit not": "~x",
    "caret": "x ^ 2",
    "shift": "1 << 2",
    "floor division": "x // 2",
    "remainder": "x % 2",
    "matrix product": "x @ y",
    "is": "x is y",
    "in": "x in y",
    # no single formula
    "empty": "",
    "blank": " \t\n ",
    "comment": "# x",
    "assignment": "x = 1",
    "statements": "x; y",
    "two lines": "x\ny",
    "import statement": "import os",
    "open parenthesis": "(x",
    "close parenthesis": "x)",
    "operator only": "+",
    "two operators": "x */ y",
    "null byte": "x\0",
    "null byte inside": "x + \0 1",
    "surrogate": "\ud800",
    "backslash": "x \\",
    "indentation": "x\n  + 1",
    # unicode that looks like something else
    "cyrillic x": "\u0445 + 1",
    "cyrillic exp": "\u0435\u0445\u0440(x)",
    "minus sign": "1 \u2212 x",
    "times sign": "2 \u00d7 x",
    "superscript": "x\u00b2",
    "root": "\u221ax",
    "infinity": "\u221e",
    "zero width": "x\u200b",
    "right to left": "x\u202e + 1",
    "no-break space": "x\u00a0+ 1",
    "emoji": "\U0001f600",
    # size
    "long": "x + " * (MAX_LENGTH // 4) + "x",
    "long name": "a" * (MAX_LENGTH - 1),
    "many terms": "+".join(["x"] * (MAX_LENGTH // 2)),
    "many signs": "-" * (MAX_LENGTH - 1) + "x",
    "many parentheses": "(" * 9000 + "x" + ")" * 9000,
    "nested functions deep": "sin(" * 3000 + "x" + ")" * 3000,
    "nested lists": "[" * 150 + "]" * 150,
    "tower": "x**" * 3000 + "x",
    "tower of nines": "9**9**9**9",
    "tower of nines in a sum": "x + 9**9**9",
    "tower of tens": "10**10**10",
    "negative tower": "9**-9**9",
    "decimal tower": "1.5**1.5**99",
    "powers of powers": "((9**999)**999)**999",
    "powers of powers of a decimal": "((((9.5**999)**999)**999)**999)**999*x",
    "exponent longer than str allows": "x**((9**999)**5)",
    "power beyond double": "10**400",
    "power beyond double, times x": "10**400*x",
    "product beyond double": "1e308*1e308",
    "long exponent": "x**(10**300)",
    "exponent just above": "x**1001",
    "exponent just below": "x**-1001",
    "exponent decimal": "x**1000.5",
    "exponent beyond all bounds": "x**exp(exp(exp(exp(10))))",
    "exponentials of exponentials": "exp(exp(exp(exp(10.0))))",
    "exponential of a huge decimal": "exp(exp(1e308))",
    "decimal overflow": "1e400",
    "integer overflow": "1" + "0" * 400,
    "integer of 4000 digits": "9" * 4000,
    "integer of 5000 digits": "9" * 5000,
    # not finite
    "division by zero": "1/0",
    "division by decimal zero": "x/0.0",
    "decimal by decimal zero": "1.5/0.0",
    "decimal zero by itself": "0.0/0.0",
    "zero by zero": "0/0",
    "zero by zero times zero": "0*(0/0)",
    "inverse of infinity": "1/(1/0)",
    "inverse of infinity, with x": "x + 3/(x/0)",
    "infinity in a bounded function": "atan(1/0)",
    "infinity in an exponent": "2**(-1/0)",
    "not a number in an exponent": "x**(0/0)",
    "zero to minus one": "0**-1",
    "zero to minus a decimal": "0.0**-0.5",
    "hidden zero": "1/(x - x)",
    "log of zero": "log(0)",
    "exp of log of zero": "exp(log(0))",
    "atanh of one": "atanh(1)",
    "tan of a pole": "tan(pi/2)",
    "log-gamma at a pole": "loggamma(0)",
    "log-gamma at another pole": "loggamma(-3)",
    # not real
    "root of a negative": "sqrt(-1)",
    "root of a negative times x": "x*sqrt(-2)",
    "root of a negative decimal": "(-2.5)**0.5",
    "cube root of a negative": "(-8)**(1/3)",
    "cube root of a negative times x": "x*(-8)**(1/3)",
    "root of a negative irrational": "sqrt(1 - pi)",
    "log of a negative": "log(-2)",
    "log of a negative irrational": "log(1 - pi)",
    "asin beyond one": "asin(2)",
    "acos beyond one": "x + acos(3)",
    "acosh below one": "acosh(1/2)",
    "atanh beyond one": "atanh(2)",
    "root of minus a square": "sqrt(-x**2)",
}


@pytest.mark.parametrize("key", REFUSED)
def test_refused(worker, key):
    """InputError with one short sentence, in well under two seconds."""
    outcome, message, seconds = worker.read(REFUSED[key])
    assert outcome == "InputError", f"{outcome}: {message}"
    assert seconds < 1.0
    assert 0 < len(message) < 500


PROMPT = {
    "powers of powers, inverse": "((9**-999)**999)**999",
    "powers of powers, fraction": "(((2/3)**999)**999)**999",
    "powers of powers, decimal": "((0.5**999)**999)**999",
    "log-gamma of a large integer": "loggamma(100000)",
    "log-gamma of a larger integer": "loggamma(10**9)",
    "log-gamma of a huge integer": "loggamma(9007199254740992)",
    "erfc of a large decimal": "erfc(1e300)",
    "exponential of a huge negative": "exp(-10**300)",
    "exponent hard to compare": "x**(sin(1)**2 + cos(1)**2 + 999)",
    "root of a large integer": "sqrt(9**300 + 7)",
    "cube root of a large integer": "(10**300 + 7)**(1/3)",
    "nested exponentials": "exp(" * 150 + "1" + ")" * 150,
    "nested exponentials of x": "exp(" * 150 + "x" + ")" * 150,
    "largest exponent": "(x + y)**1000",
    "powers of powers of x": "(((x**999)**999)**999)**999",
    "longest sum": "+".join(["x"] * 200),
    "angle beyond double": "sin(10**300) + tan(10**300*x)",
}


@pytest.mark.parametrize("key", PROMPT)
def test_read_or_refused_promptly(worker, key):
    """Hard cases where either answer would do, if it comes at once and is no other exception."""
    outcome, message, seconds = worker.read(PROMPT[key])
    assert outcome in ("accepted", "InputError"), f"{outcome}: {message}"
    assert seconds < 1.0


def test_messages_hold_no_control_characters():
    """A terminal that shows the message must not obey what stood in the formula."""
    with pytest.raises(InputError) as caught:
        parse_expression("x + \x1b[31m\x07", ["x"])
    assert str(caught.value).isprintable()


PIECES = [*"xy01()+-*/ ", "**", "2.5", "1/0", "pi", "asin(", "log(", "sqrt(", "tanh(", "erf(", "."]


@settings(derandomize=True, max_examples=400, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=14))
def test_any_text_is_read_or_refused(pieces):
    """Whatever the characters: an expression of the given names that is real, or InputError."""
    try:
        found = parse_expression("".join(pieces), ["x", "y"])
    except InputError:
        return
    assert isinstance(found, sp.Expr)
    assert {s.name for s in found.free_symbols} <= {"x", "y"}
    if found.is_number:
        assert math.isfinite(float(found))  # a TypeError where it is complex
    assert not found.atoms(sp.AccumBounds)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    text=st.text(
        "xy01e.+-*/()[]{}:;=,#'\"\\\0\t\n\x1b\x85\xa0\xb2\u0430\u2028\u2212\ufeff\uff58\U0001d465",
        max_size=9,
    )
)
def test_any_unicode_is_read_or_refused(text):
    try:
        assert parse_expression(text, ["x"]).free_symbols <= {X}
    except InputError as error:
        assert str(error)
