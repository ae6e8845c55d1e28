"""Token statistics: where probabilities come from, and what they do to the mean data and to W."""

import csv
import math
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import scipy.linalg

from phasetheory.copytask.setting import Setting
from phasetheory.errors import InputError
from phasetheory.landscape.lowering import lower
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic import tokens as derived
from phasetheory.symbolic.marginal import moment_step, p_c, p_d, same_symbol, total_M, trace_M

#: the order of the parameters of the copy task in theta; the probabilities follow them
PARAMETERS = (sym.L, sym.V, sym.kappa, sym.sigma_g, sym.sigma_w)
_INVARIANTS = (sym.r, sym.q, sym.b_u, sym.b)


def zipf(V: int, exponent: float) -> tuple[float, ...]:
    """V probabilities proportional to ``rank^-exponent``, most frequent first.

    Raises:
        InputError: for fewer than two symbols, or an exponent that is negative, not finite, or so
            large that only the first symbol is left.
    """
    if not 2 <= V <= 10**7:
        raise InputError(f"Zipf's law needs from 2 to 10^7 symbols, not {V}")
    if not (math.isfinite(exponent) and exponent >= 0):
        raise InputError(f"the exponent of Zipf's law is a number from 0 up, not {exponent:g}")
    weights = np.arange(1, V + 1) ** -float(exponent)
    if weights[1] == 0:
        raise InputError(f"at the exponent {exponent:g} Zipf's law leaves one symbol only")
    return _normalised(weights.tolist())


def from_counts(path: Path | str) -> tuple[float, ...]:
    """Probabilities in proportion to the counts in a file, in its order.

    Each line holds a count, or a symbol and then its count, separated by a comma, tab or spaces. A
    symbol that holds a separator is quoted as in CSV, and a heading may be a comment. Blank lines
    and lines that start with ``#`` are skipped. A count may be zero.

    Raises:
        InputError: naming the file and, where one is to blame, the line.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text file in UTF-8") from None
    counts, seen = [], {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        *symbol, count = _fields(text)
        where = f"{path}, line {number}"
        if len(symbol) > 1:
            raise InputError(f"{where}: a line is a count, or a symbol and a count, not {text!r}")
        if symbol and seen.setdefault(symbol[0], number) != number:
            raise InputError(f"{where}: {symbol[0]!r} has a count in line {seen[symbol[0]]}")
        counts.append(_count(count, where))
    if len(counts) < 2:
        raise InputError(f"{path} needs the counts of at least 2 symbols, not {len(counts)}")
    if sum(count > 0 for count in counts) < 2:
        raise InputError(f"{path}: at least 2 of the counts must be above zero")
    return _normalised(counts)


def parse_tokens(text: str, V: int | None) -> tuple[float, ...] | None:
    """Probabilities from ``uniform``, ``zipf:EXPONENT`` or the name of a file of counts.

    Args:
        V: number of symbols; None for the default of a `Setting` or for that of the file.

    Returns:
        The probabilities, or None for ``uniform``.

    Raises:
        InputError: saying what is wrong with the text or the file.
    """
    if text == "uniform":
        return None
    name, colon, exponent = text.partition(":")
    if colon and name == "zipf":
        try:
            value = float(exponent)
        except ValueError:
            raise InputError(f"zipf:EXPONENT takes a number, not {exponent!r}") from None
        return zipf(Setting.V if V is None else V, value)
    tokens = from_counts(text)
    if V is not None and len(tokens) != V:
        raise InputError(f"V is {V}, but {text} holds the counts of {len(tokens)} symbols")
    return tokens


def _fields(text: str) -> list[str]:
    for delimiter in (",", "\t"):
        if delimiter in text:
            return [field.strip() for field in next(csv.reader([text], delimiter=delimiter))]
    return text.split()


def _count(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{where}: a count is a number, not {text!r}") from None
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{where}: a count is a number from 0 up, not {text!r}")
    return value


def _normalised(weights: list[float]) -> tuple[float, ...]:
    largest = max(weights)  # the sum of huge counts would overflow
    shares = [weight / largest for weight in weights]
    total = math.fsum(shares)
    return tuple(share / total for share in shares)


def data_term(r, q, b_u, b, P, theta):
    """S_data for given probabilities, at a cost linear in V; a pure JAX function.

    Args:
        r, q, b_u, b: invariants of the attention matrix, arrays of one shape that broadcasts
            against nothing but scalars (`jax.vmap` for batches).
        P: number of training sequences.
        theta: ``(L, V, kappa, sigma_g, sigma_w, p)``, p of shape (V,).

    Returns:
        The data term in nats, up to the constant ``P/2 kappa``.
    """
    return _data_term()(r, q, b_u, b, P, *theta)


@cache
def _data_term():
    expression = derived.data_log_cost() + derived.data_gain()
    return lower(expression, (*_INVARIANTS, sym.P, *PARAMETERS, derived.p))


def mean_moment(tokens, trace: float, total: float) -> np.ndarray:
    """``E[X^T M X]`` for a matrix M of given trace and sum of entries: shape (V, V)."""
    p = np.asarray(tokens, float)
    entry = lower(moment_step().value, (trace_M, total_M, p_c, p_d, same_symbol))
    return np.array(entry(trace, total, p[:, None], p[None, :], np.eye(len(p))))


def signal_spectrum(tokens, r: float, q: float) -> np.ndarray:
    """The V eigenvalues of ``E[X^T A^T A X]``, ascending, for ``r = ||A1||^2``, ``q = ||A||_F^2``.

    They interlace with the values ``q p_v``: zeros of the step ``secular`` of the derivation.
    """
    return np.linalg.eigvalsh(mean_moment(tokens, q, r))


def weight_spectrum(tokens, r, q, b_u, b, mu: float) -> np.ndarray:
    """The V eigenvalues, ascending, of the posterior mean of W at ``mu = sigma_w^2 P/(kappa L)``.

    The mean is ``mu K^-1 B/P`` with ``K = 1 + mu Phi/P``; it is not symmetric, and its eigenvalues
    are real.
    """
    K = np.eye(len(tokens)) + mu * mean_moment(tokens, q, r)
    return scipy.linalg.eigh(mu * mean_moment(tokens, b, b_u), K, eigvals_only=True)


def posterior_mean(tokens, r, q, b_u, b, mu: float) -> np.ndarray:
    """The posterior mean of W, shape (V, V), at ``mu = sigma_w^2 P/(kappa L)``."""
    K = np.eye(len(tokens)) + mu * mean_moment(tokens, q, r)
    return scipy.linalg.solve(K, mu * mean_moment(tokens, b, b_u), assume_a="pos")


def rarest(p):
    """The smallest probability of a symbol that occurs."""
    return jnp.min(jnp.where(p > 0, p, jnp.inf))
