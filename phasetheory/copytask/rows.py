"""The average over one row of softmax attention, ``z = E exp(b_hat a - q_hat n)``.

``a`` is the weight on the copied token and ``n`` the sum of the squared weights of a row
``softmax(g)``, ``g ~ N(0, sigma_g^2)^L`` (steps ``row`` to ``row_token`` of
`phasetheory.symbolic.meanfield`). The L-dimensional average becomes a few one-dimensional ones,
without any sampling: of the copied logit; of ``l``, the logarithm of the sum of ``e^g`` over the
other ``n = L - 1`` tokens; and, for the density of ``l``, of the Laplace variable ``s`` that fixes
that sum, in which the tokens are independent. All quadratures are trapezoids of analytic functions
that vanish at both ends, which converge exponentially; the dependence on the fields is a spline.
"""

import math
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev
from scipy.interpolate import BSpline, PPoly, make_interp_spline
from scipy.special import log_expit, ndtri

import phasetheory._jax  # noqa: F401  (64 bits)

#: nodes in the logit of a, and terms of the Chebyshev series in log(1 + q_hat)
NODES, TERMS = 512, 48
#: degree of the spline, for as many continuous derivatives as an action and its Landau expansion
#: take, and its points in b_hat and q_hat; constant, so that settings share code
DEGREE, POINTS = 7, (1536, 400)
#: the spline's variables are log(field + OFFSET): small fields need few points
OFFSET = np.array([3.0, 0.05])
#: cells at the ends, where an interpolating spline has other knots and is not used
EDGE = DEGREE + 1 + DEGREE // 2
#: integrands are cut where they are below exp(-CUT) of their largest value
CUT = 45.0


class RowAverage(NamedTuple):
    """What `log_z` needs of one (L, sigma_g).

    ``coefficients``: of the spline, shape POINTS; ``origin`` (2,): its first points in the
    variables ``log(field + OFFSET)``; ``step`` (2,): their distances.
    """

    coefficients: np.ndarray
    origin: np.ndarray
    step: np.ndarray


def log_z(b_hat, q_hat, rows: RowAverage):
    """``log E exp(b_hat a - q_hat n)`` for fields within the range of the average.

    A pure JAX function with DEGREE - 1 continuous derivatives: those in ``b_hat`` and ``-q_hat``
    are the cumulants of ``a`` and ``n`` in the row.
    """
    place = (jnp.log(jnp.stack([b_hat, q_hat]) + OFFSET) - rows.origin) / rows.step
    cell = jnp.floor(jax.lax.stop_gradient(place)).astype(int)
    cell = jnp.clip(cell, EDGE, np.array(POINTS) - EDGE - 1)
    i, j = (c - DEGREE // 2 + jnp.arange(DEGREE + 1) for c in cell)
    weights_b, weights_q = (_powers(x) @ _basis() for x in place - cell)
    return weights_b @ rows.coefficients[i[:, None], j] @ weights_q


def _powers(x):
    """x^DEGREE, ..., x, 1."""
    powers = [jnp.ones_like(x)]
    for _ in range(DEGREE):
        powers.append(powers[-1] * x)
    return jnp.stack(powers[::-1])


@lru_cache(maxsize=1)
def _basis() -> np.ndarray:
    """Polynomial coefficients, highest power first, of the DEGREE + 1 B-splines on one cell."""
    spline = BSpline.basis_element(np.arange(DEGREE + 2.0))
    pieces = PPoly.from_spline(spline)
    inside = np.searchsorted(pieces.x, np.arange(DEGREE + 1) + 0.5) - 1
    return pieces.c[:, inside[::-1]]


@lru_cache(maxsize=32)
def row_average(
    L: int, sigma_g: float, b_hat: float, q_hat: float, refinement: float = 1.0
) -> RowAverage:
    """Tabulate the average over a row.

    Args:
        L: sequence length, at least 2.
        b_hat, q_hat: the largest fields; the smallest are 0.
        refinement: factor on the number of nodes of all quadratures, to see their error.
    """
    points = np.array(POINTS)
    margin = np.array([[EDGE, EDGE], [0, EDGE]])  # there is no average at q_hat < 0
    high = np.log(np.array([b_hat, q_hat]) + OFFSET)
    step = (high - np.log(OFFSET)) / (points - 2 - margin.sum(axis=1))
    origin = np.log(OFFSET) - margin[:, 0] * step
    variables = [o + d * np.arange(m) for o, d, m in zip(origin, step, POINTS, strict=True)]
    b, q = (np.exp(x) - offset for x, offset in zip(variables, OFFSET, strict=True))
    a, exponent = _density(L, sigma_g, q, b[-1], refinement)
    values = _sum_over_nodes(b, q, a, exponent)
    for axis, x in enumerate(variables):
        spline = make_interp_spline(x, values, k=DEGREE, axis=axis)
        values = np.moveaxis(spline.c, 0, axis)  # it holds the axis of x in front
    return RowAverage(values, origin, step)


@jax.jit
def _sum_over_nodes(b_hat, q_hat, a, exponent):
    def at(b):
        return jax.nn.logsumexp(exponent + b * a - q_hat[:, None] * a**2, axis=1)

    return jax.lax.map(at, b_hat)


def _density(L: int, sigma_g: float, q_hat: np.ndarray, b_hat: float, refinement: float):
    """Weights ``a`` on the copied token (K,) and the logarithms (M, K) of their probabilities.

    Weighted by ``exp(-q_hat (n - a^2))``, for the M values of q_hat and fields on a up to b_hat.
    """
    n = L - 1
    reach = 1.01 * math.log1p(q_hat[-1])
    x = np.cos(np.pi * (np.arange(TERMS) + 0.5) / TERMS)
    q_nodes = np.expm1(reach * (x + 1) / 2)

    # log of E[delta(l - log sum) exp(-q n')] of the other tokens, n' the sum of their squared
    # weights among themselves, for q at the nodes: a mixture of K atoms in l
    atoms, log_mass = _others(n, sigma_g, q_nodes, refinement)
    u = _logits(atoms, sigma_g, b_hat, round(NODES * refinement))
    log_a, log_rest = log_expit(u), log_expit(-u)
    log_density = np.empty((TERMS, len(u)))
    for m in range(TERMS):
        h = u[:, None] + atoms[m]
        log_normal = -0.5 * (h / sigma_g) ** 2 - math.log(sigma_g * math.sqrt(2 * math.pi))
        log_density[m] = np.logaddexp.reduce(log_normal + log_mass[m], axis=1)
    of_q = _interpolate(x, log_density)

    # beside the copied token the others have (1 - a) of the weight, so that n = a^2 + (1-a)^2 n'
    q_others = q_hat[:, None] * np.exp(2 * log_rest)
    at = 2 * np.log1p(q_others) / reach - 1
    exponent = np.stack(
        [chebyshev.chebval(x, c) for x, c in zip(at.T, of_q.T, strict=True)], axis=1
    )
    return np.exp(log_a), exponent + math.log(u[1] - u[0]) - q_others / n


def _interpolate(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Chebyshev coefficients (TERMS, K) of functions given at the roots x."""
    return np.linalg.solve(chebyshev.chebvander(x, len(x) - 1), values)


def _logits(atoms: np.ndarray, sigma_g: float, b_hat: float, count: int) -> np.ndarray:
    """Evenly spaced logits of a, wide enough for all fields up to b_hat."""
    spread = math.sqrt(2 * CUT) * sigma_g
    low, high = -np.max(atoms) - spread, -np.min(atoms) + spread
    # where exp(b_hat a) pulls the logit: up, until b_hat (1 - a) no longer pays for the next step
    pulled = math.log1p(b_hat * sigma_g**2) + min(spread, CUT)
    return np.linspace(low, max(high, pulled), count)


def _others(n: int, sigma_g: float, q: np.ndarray, refinement: float):
    """Atoms (M, K) of l and the logarithms of their masses, weighted by ``exp(-q (n' - 1/n))``."""
    if n == 1:  # a single other token: l is its logit and n' = 1
        t = np.linspace(-1, 1, round(64 * refinement)) * math.sqrt(2 * CUT) * sigma_g
        mass = np.exp(-0.5 * (t / sigma_g) ** 2)
        shape = (len(q), len(t))
        return np.broadcast_to(t, shape), np.broadcast_to(np.log(mass / mass.sum()), shape)
    coarse = np.linspace(*_range_of_sum(n, sigma_g), 400)
    exponent, gaussian = map(np.asarray, _exponents(float(n), sigma_g, q, coarse))
    atoms, spacing = _around_maximum(coarse, exponent, gaussian, round(80 * refinement))
    tokens = round((160 + 160 * sigma_g) * refinement)
    contour = round((60 if n > 40 else 100) * refinement)
    exponent, ratio = _densities(float(n), sigma_g, q, atoms, tokens, contour)
    mass = np.maximum(np.asarray(ratio), 0) * spacing
    with np.errstate(divide="ignore"):
        return atoms, np.asarray(exponent) + np.log(mass)


def _range_of_sum(n: int, sigma_g: float) -> tuple[float, float]:
    """Where log sum e^g of n tokens lies: typical values, and a single token far out."""
    spread = math.sqrt(2 * CUT) * sigma_g
    largest = -sigma_g * float(ndtri(1e-16 / n))
    typical = math.log(n) + min(sigma_g**2 / 2, largest)
    deviation = math.sqrt(math.expm1(min(sigma_g**2, 20.0)) / n)
    return (
        math.log(n) - spread / math.sqrt(n),
        float(np.logaddexp(typical + min(12 * deviation, spread), largest)),
    )


def _around_maximum(coarse, exponent, gaussian, count: int):
    """Nodes (M, count), dense where the density is largest, with their spacings.

    `exponent` bounds the logarithm of the density, `gaussian` estimates it near its maximum.
    """
    atoms, spacing = [], []
    step = coarse[1] - coarse[0]
    for bound, row in zip(exponent, gaussian, strict=True):
        inside = coarse[bound > row.max() - CUT]
        middle = coarse[np.argmax(row)]
        near = coarse[row > row.max() - 2]
        width = max((near[-1] - near[0]) / 4, step / 2)
        ends = np.arcsinh((np.array([inside[0] - step, inside[-1] + step]) - middle) / width)
        t = np.linspace(ends[0], ends[1], count)
        atoms.append(middle + width * np.sinh(t))
        spacing.append(width * np.cosh(t) * (t[1] - t[0]))
    return np.array(atoms), np.array(spacing)


def _tilt(n, sigma_g, q, l):
    """The real saddle of ``s + n log phi(s)``, its exponent, and the scale of s around it.

    phi(s) is the average of ``exp(-s y - q (y - 1/n)^2)`` over a token of weight ``y = e^(g-l)``.
    Only the place of the contour depends on it, so a coarse quadrature serves.
    """
    g = jnp.linspace(-10 * sigma_g - 4, 10 * sigma_g, 401)
    y = jnp.exp(g - l)
    prior = -(g**2) / (2 * sigma_g**2) - q * (y - 1 / n) ** 2
    # further to the left a single token may take all the weight, where contours through the
    # saddle do not help
    lowest = jnp.maximum(6 * q / n, 3 * jnp.sqrt(q))

    def weight(eta):
        e = prior - eta * y
        return jnp.exp(e - jnp.max(e)), jnp.max(e)

    def bisect(_, state):
        lo, hi, z = state
        p, _ = weight(z - lowest)
        heavy = n * (p @ y) > jnp.sum(p)
        lo, hi = jnp.where(heavy, z, lo), jnp.where(heavy, hi, z)
        inner = jnp.where(lo > 0, jnp.sqrt(lo * hi), hi / 8)
        return lo, hi, jnp.where(hi < jnp.inf, inner, 4 * z)

    start = (0.0, jnp.inf, 1e-3 * n + lowest)
    eta = jnp.maximum(jax.lax.fori_loop(0, 30, bisect, start)[2], 1e-6) - lowest
    p, top = weight(eta)
    total = jnp.sum(p)
    normal = (g[1] - g[0]) / (sigma_g * math.sqrt(2 * math.pi))
    exponent = eta + n * (jnp.log(total * normal) + top)
    capped = jnp.minimum(y, 1.5)  # a token never has more than the whole weight
    mean, square = p @ capped / total, p @ capped**2 / total
    scale = 1 / jnp.sqrt(n * jnp.maximum(square - mean**2, 1e-12 * square))
    # where the saddle lies further to the left, the density near s = eta is that of a Gaussian
    gaussian = exponent - ((1 - n * (p @ capped) / total) * scale) ** 2 / 2
    e = prior - eta * y
    low = g[jnp.argmax(e > top - CUT - 5)] - (g[1] - g[0])
    high = g[g.size - 1 - jnp.argmax((e > top - 80)[::-1])] + (g[1] - g[0])
    return eta, exponent, gaussian, scale, low, high


@jax.jit
def _exponents(n, sigma_g, q, l):
    """A bound on the exponent of the density and an estimate of it, each (M, K)."""
    return jax.vmap(lambda q: jax.vmap(lambda l: _tilt(n, sigma_g, q, l)[1:3])(l))(q)


@partial(jax.jit, static_argnames=("tokens", "contour"))
def _densities(n, sigma_g, q, l, tokens: int, contour: int):
    """``E[delta(l - log sum e^g) exp(-q (n' - 1/n))]`` as (exponent, ratio), each (M, K).

    The Laplace inversion runs along a hyperbola through the saddle that bends to the left, where
    e^s decays; the logits of the tokens are turned into the complex plane with it, where the
    average over them converges however large s is.
    """

    def at(q, l):
        eta, _, _, scale, low, high = _tilt(n, sigma_g, q, l)
        g = low + (high - low) * jnp.arange(tokens) / (tokens - 1)
        y = jnp.exp(g - l)
        log_step = jnp.log((high - low) / ((tokens - 1) * sigma_g * math.sqrt(2 * math.pi)))
        prior = log_step - g**2 / (2 * sigma_g**2)
        real = jnp.exp(prior - eta * y - q * (y - 1 / n) ** 2)
        exponent = eta + n * jnp.log(jnp.sum(real))

        # turning by theta costs exp(theta^2/2 sigma_g^2) and a similar factor from q: kept small
        centre = 1 / n + jnp.maximum(-eta, 0) / (2 * q + 1e-9)
        turn = jnp.minimum(jnp.minimum(0.55, 1.5 * sigma_g), 1.2 / (centre * jnp.sqrt(q + 1e-9)))
        bend = jnp.tan(turn / 2)
        base = jnp.minimum(scale, 3.0)
        wide = jnp.minimum(scale, 3 * jnp.sqrt(n) / jnp.minimum(sigma_g, 1.0))
        length = jnp.minimum(30 * scale, jnp.maximum(CUT / bend, 10 * wide))
        end = jnp.arcsinh(length / base)
        t = end * (jnp.arange(contour) + 0.5) / contour
        x, dx = base * jnp.sinh(t), base * jnp.cosh(t) * end / contour
        root = jnp.hypot(x, base)
        s = eta + 1j * x - bend * (root - base)
        ds = (1j - bend * x / root) * dx
        theta = turn * jnp.minimum(1.0, jnp.angle(s) / (jnp.pi / 2))
        turned = y * jnp.exp(-1j * theta)[:, None]
        power = prior - s[:, None] * turned - q * (turned - 1 / n) ** 2
        power += 1j * theta[:, None] * (g / sigma_g**2)
        phi = jnp.sum(jnp.exp(power), axis=1) * jnp.exp(theta**2 / (2 * sigma_g**2))
        integrand = jnp.exp(s - exponent + n * jnp.log(phi + 1e-300)) * ds
        return exponent, jnp.sum(jnp.nan_to_num(integrand.imag)) / jnp.pi

    return jax.lax.map(lambda ql: jax.vmap(lambda l: at(ql[0], l))(ql[1]), (q, l))
