"""The data term and the losses for any token probabilities, at a cost linear in their number.

The means of Phi and B are then a diagonal plus one outer product; determinant lemma and
Sherman-Morrison leave sums over the symbols, which stay `sympy.Sum`s over ``p[v]``.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import sympy as sp

from phasetheory.symbolic.marginal import (
    gaussian_step,
    matrix_marginal_step,
    moment_step,
    one_mode_step,
    p_c,
    p_d,
    same_symbol,
    total_M,
    trace_M,
)
from phasetheory.symbolic.steps import Derivation, Step
from phasetheory.symbolic.symbols import MODEL_NOTATION, L, P, V, b, b_u, kappa, lam, q, r, sigma_w

#: probabilities of the symbols, summed over v = 1..V
p: Any = sp.IndexedBase("p")
v = sp.Symbol("v", integer=True)
mu = sp.Symbol("mu", positive=True)
#: mu = sigma_w^2 P / (kappa L): V lambda
MU = sigma_w**2 * P / (kappa * L)
#: eigenvalues of the mean of Phi/P and of the posterior mean of W
x, w = sp.symbols("x w", real=True)

#: sum of log(1 + mu q p_v)
T_log = sp.Symbol("T_log", nonnegative=True)
E, g_bb, g_bu, g_uu = sp.symbols("E g_bb g_bu g_uu", real=True)
#: tr(B^T K^-1 B)/P^2 and log det K, as functions of mu at fixed r, q, b_u, b
gain, cost = (sp.Function(name)(mu) for name in ("Gamma", "D"))
_shrink = sp.Symbol("(1 + mu q p_c)^-1", positive=True)


def T(k: int, j: int) -> sp.Symbol:
    """The symbol of the sum of ``p_v^k / (1 + mu q p_v)^j``."""
    return sp.Symbol(f"T_{k}{j}", positive=True)


_SUMS = ((2, 0), (1, 1), (2, 1), (3, 1), (3, 2), (4, 2))


@dataclass(frozen=True)
class _Matrix:
    """A diagonal plus outer products ``u w^T``; entries are polynomials in p_c and _shrink."""

    diagonal: Any
    outer: tuple[tuple[Any, Any], ...]

    def __matmul__(self, other: "_Matrix") -> "_Matrix":
        left = [(u, w * other.diagonal) for u, w in self.outer]
        right = [(self.diagonal * u, w) for u, w in other.outer]
        both = [(u * _sum(w * y), z) for u, w in self.outer for y, z in other.outer]
        return _Matrix(self.diagonal * other.diagonal, (*left, *right, *both))

    def trace(self) -> sp.Expr:
        return _sum(self.diagonal) + sum(_sum(u * w) for u, w in self.outer)

    def entry(self) -> tuple[sp.Expr, sp.Expr]:
        """The diagonal part in p_c, and the outer part in p_c and p_d."""
        outer = [_resolve(u) * _resolve(w).subs(p_c, p_d) for u, w in self.outer]
        return _resolve(self.diagonal), sp.Add(*outer)


def _resolve(entry: Any) -> sp.Expr:
    return sp.sympify(entry).subs(_shrink, 1 / (1 + mu * q * p_c))


def _sum(entry: Any) -> sp.Expr:
    """The sum of a polynomial over the symbols; the probabilities sum to one."""
    terms = sp.Poly(entry, p_c, _shrink).terms()
    return sum(c * (1 if (k, j) == (1, 0) else T(k, j)) for (k, j), c in terms)


def _mean(trace: Any, total: Any) -> _Matrix:
    """E[X^T M X] from the step ``moment``."""
    entry = sp.expand(moment_step().value.subs({trace_M: trace, total_M: total}))
    outer = entry.coeff(same_symbol, 0).coeff(p_d, 1)
    return _Matrix(entry.coeff(same_symbol, 1), ((sp.factor(outer / p_c) * p_c, p_c),))


_signal = _mean(q, r)
_overlap = _mean(b, b_u)
_excess = mu * (r - q)
_inverse = _Matrix(_shrink, ((-_excess / E * _shrink * p_c, _shrink * p_c),))


@cache
def mean_data_step() -> Step:
    def entry(matrix: _Matrix) -> sp.Expr:
        diagonal, outer = matrix.entry()
        return P * (same_symbol * diagonal + outer)

    return Step(
        "mean_data",
        "Means over the data",
        r"For $PL \gg V$ the data enter through the means of $\Phi$ and $B$ alone. Each is a "
        r"diagonal plus an outer product:",
        sp.Tuple(
            sp.Eq(sp.Symbol("Phi_cd"), entry(_signal), evaluate=False),
            sp.Eq(sp.Symbol("B_cd"), entry(_overlap), evaluate=False),
        ),
        r"The moments of the tokens with $M = A^{\top}A$, of trace $q$ and total $r$, and "
        r"$M = A^{\top}S$, of trace $b$ and total $b_u$.",
    )


@cache
def secular_step() -> Step:
    strength, ((left, _),) = _signal.diagonal.subs(p_c, p[v]), _signal.outer
    value = 1 + sp.Sum(p[v] ** 2 / (strength - x), (v, 1, V)) * left / p_c
    return Step(
        "secular",
        "Spectrum of the mean data",
        r"The eigenvalues of $\Phi/P$ are the zeros $x$ of the secular function, one between each "
        r"two neighbouring values of $q p_v$ and one beyond them (above for $r > q$, below for "
        r"$r < q$); where $m$ symbols share one probability, $q p_v$ itself counts $m-1$ times.",
        sp.Eq(sp.Symbol("f_sec"), value, evaluate=False),
        r"$\det(\mathrm{diag}(u_v) + s\,pp^{\top}) = \prod_v u_v\,"
        r"\big(1 + s\sum_v p_v^2/u_v\big)$ with $u_v = q p_v - x$ and $s = r - q$.",
    )


@cache
def sums_step() -> Step:
    values = [sp.log(1 + mu * q * p[v])]
    values += [p[v] ** k / (1 + mu * q * p[v]) ** j for k, j in _SUMS]
    names = [T_log, *(T(k, j) for k, j in _SUMS)]
    return Step(
        "sums",
        "Sums over the symbols",
        r"Everything that the probabilities do to the data term they do through a few sums, with "
        r"$\mu = \sigma_w^2 P/(\kappa L)$:",
        sp.Tuple(
            *(
                sp.Eq(name, sp.Sum(value, (v, 1, V)), evaluate=False)
                for name, value in zip(names, values, strict=True)
            )
        ),
        r"Definitions. $T_{kj}$ is the sum of $p_v^k/(1+\mu q p_v)^j$, and $T_{20}$ the inverse of "
        r"the effective number of symbols.",
    )


@cache
def determinant_step() -> Step:
    # 1 + mu (r - q) T_21, without its cancellation: mu q T_21 = T_10 - T_11 = 1 - T_11
    value = T(1, 1) + mu * r * T(2, 1)
    return Step(
        "determinant",
        "Determinant",
        r"With $K = 1 + \sigma_w^2\Phi/(\kappa L)$, its logarithmic determinant $D = \log\det K$ "
        r"and $E = 1 + \mu(r-q)\,T_{21}$,",
        sp.Tuple(sp.Eq(cost, T_log + sp.log(E), evaluate=False), sp.Eq(E, value, evaluate=False)),
        r"Matrix determinant lemma for $K = \mathrm{diag}(1+\mu q p_v) + \mu(r-q)\,pp^{\top}$. "
        r"$\mu q p_v/(1+\mu q p_v) = 1 - 1/(1+\mu q p_v)$ gives $\mu q T_{21} = 1 - T_{11}$: $E$ "
        r"is positive also for $r < q$.",
    )


@cache
def inverse_step() -> Step:
    diagonal, outer = _inverse.entry()
    return Step(
        "inverse",
        "Inverse",
        r"The inverse of $K$ has the entries",
        sp.Eq(sp.Symbol("k_cd"), same_symbol * diagonal + outer, evaluate=False),
        r"Sherman-Morrison.",
    )


@cache
def gain_step() -> Step:
    full = sp.expand((_inverse @ _overlap @ _overlap).trace().subs(1 / E, x))
    plain, corrected = full.coeff(x, 0), sp.factor(full.coeff(x, 1) / _excess)
    # times E = 1 + mu (r - q) T_21; then mu q T_kj = T_(k-1)(j-1) - T_(k-1)j against cancellation
    slope = sp.expand(plain * T(2, 1) + corrected)
    reduced = slope.subs({T(4, 2): T(3, 1) - T(3, 2), T(2, 1) ** 2: T(2, 1) * (1 - T(1, 1))})
    value = sp.expand(plain + mu * r * slope - reduced)
    poly = sp.Poly(value, b, b_u)
    coefficients = (poly.coeff_monomial(m) for m in (b**2, b * b_u, b_u**2))
    bb, bu, uu = (sp.collect(sp.expand(c), mu * r) for c in coefficients)
    return Step(
        "gain",
        "Trace of the gain",
        r"$\Gamma = \operatorname{tr}(B^{\top}K^{-1}B)/P^2$ is",
        sp.Tuple(
            sp.Eq(gain, (g_bb * b**2 + 2 * g_bu * b * b_u + g_uu * b_u**2) / E, evaluate=False),
            sp.Eq(g_bb, bb, evaluate=False),
            sp.Eq(g_bu, bu / 2, evaluate=False),
            sp.Eq(g_uu, uu, evaluate=False),
        ),
        r"The products of a diagonal and outer products of $p$, with "
        r"$\mu q\,T_{kj} = T_{k-1,j-1} - T_{k-1,j}$ and $T_{10} = 1$.",
    )


@cache
def data_step() -> Step:
    """S_data; `data_log_cost` and `data_gain` are its two parts, written out."""
    matrix = matrix_marginal_step().value
    (determinant,), (trace,) = matrix.atoms(sp.log), matrix.atoms(sp.Trace)
    value = matrix.subs({determinant: cost, trace: P**2 * gain})
    return Step(
        "data_action",
        "The data term for any token probabilities",
        r"Up to the constant $P/2\kappa$,",
        sp.Eq(sp.Symbol("S_data"), value.subs(sigma_w, sp.sqrt(mu * kappa * L / P))),
        r"The marginal over $W$ with the determinant and the trace of the previous steps.",
    )


@cache
def mean_weights_step() -> Step:
    diagonal, outer = (_inverse @ _overlap).entry()
    outer = sp.factor(outer.subs(T(2, 1), (E - 1) / _excess))
    return Step(
        "posterior",
        "Posterior mean of W",
        r"The posterior mean of $W$ given $A$ has the entries",
        sp.Eq(sp.Symbol("w_cd"), mu * (same_symbol * diagonal + outer), evaluate=False),
        r"$\langle W\rangle = \mu K^{-1}B/P$, the mean of the Gaussian of each column.",
    )


@cache
def weights_spectrum_step() -> Step:
    diagonal = (mu * _overlap.diagonal - w * (1 + mu * _signal.diagonal)).subs(p_c, p[v])
    outer = mu * (b_u - b) - w * _excess
    value = 1 + outer * sp.Sum(p[v] ** 2 / diagonal, (v, 1, V))
    return Step(
        "posterior_spectrum",
        "Spectrum of the posterior mean of W",
        r"$\langle W\rangle$ is not symmetric, but its eigenvalues are real: the zeros $w$ of",
        sp.Eq(sp.Symbol("f_w"), value, evaluate=False),
        r"They are the eigenvalues of the symmetric $\mu K^{-1/2}BK^{-1/2}/P$, so "
        r"$\det(\mu B/P - wK) = 0$, again the determinant of a diagonal plus an outer product.",
    )


@cache
def losses_step() -> Step:
    mean = 1 - mu / L * (gain + sp.Derivative(mu * gain, mu))
    return Step(
        "losses",
        "Test losses",
        r"On fresh sequences the posterior mean of $W$ and a posterior sample have, per position, "
        r"the losses",
        sp.Tuple(
            sp.Eq(sp.Symbol("ell_mean"), mean, evaluate=False),
            sp.Eq(
                sp.Symbol("ell_test"),
                mean + sigma_w**2 * V / L * sp.Derivative(cost, mu),
                evaluate=False,
            ),
        ),
        r"$\mathbb{E}\|SX - AXW\|_F^2/L = 1 - 2\operatorname{tr}(B^{\top}W)/PL + "
        r"\operatorname{tr}(W^{\top}\Phi W)/PL$ at $W = \mu K^{-1}B/P$, where "
        r"$\mu\Phi/P = K - 1$ and $\mathrm{d}K^{-1}/\mathrm{d}\mu = -K^{-1}\Phi K^{-1}/P$. A "
        r"sample adds $\sigma_w^2 V\operatorname{tr}(K^{-1}\Phi)/PL$, and "
        r"$\mathrm{d}\log\det K/\mathrm{d}\mu = \operatorname{tr}(K^{-1}\Phi)/P$.",
    )


def written_out(expression: Any) -> sp.Expr:
    """An expression of these steps in r, q, b_u, b, p and the parameters alone."""
    equations = [e for step in (determinant_step(), gain_step()) for e in step.value]
    letters = {e.lhs: e.rhs for e in equations if e.lhs.is_Symbol}
    sums = {equation.lhs: equation.rhs for equation in sums_step().value}

    def insert(value: Any) -> Any:
        return value.xreplace(letters).xreplace(sums)

    # a derivative sees its argument whole: the letters depend on mu as well
    functions = {e.lhs: insert(e.rhs) for e in equations if not e.lhs.is_Symbol}
    expression = insert(expression).xreplace(functions)
    expression = expression.replace(sp.Derivative, lambda f, *by: sp.diff(f, *by))
    return expression.subs(mu, MU)


@cache
def data_log_cost() -> sp.Expr:
    """The part of S_data from the narrowing of W; absent at the level map."""
    return written_out(data_step().value.subs(gain, 0))


@cache
def data_gain() -> sp.Expr:
    """The part of S_data from the fit of the posterior mean of W."""
    return written_out(data_step().value.subs(cost, 0))


@cache
def losses() -> tuple[sp.Expr, sp.Expr]:
    """Test loss of the posterior mean and of a posterior sample, written out."""
    mean, sample = (equation.rhs for equation in losses_step().value)
    return written_out(mean), written_out(sample)


@cache
def own_weight() -> sp.Expr:
    """The diagonal entry of the posterior mean of W at a symbol of probability `p_c`."""
    return written_out(mean_weights_step().value.subs({same_symbol: 1, p_d: p_c}))


@cache
def tokens_derivation() -> Derivation:
    """The derivation of the data term for any token probabilities (nats, up to P/2 kappa)."""
    return Derivation(
        key="tokens",
        title="Any token probabilities on the copy task",
        summary=(
            r"The marginal over $W$ for symbols that are not equally frequent: the mean data are a "
            r"diagonal plus an outer product, so that its determinant, its inverse and the losses "
            r"are sums over the symbols. The prior of the attention does not change."
        ),
        notation=(
            *(row for row in MODEL_NOTATION if row[0] != lam),
            (mu, r"$\sigma_w^2 P/(\kappa L)$"),
            (p[v], "probability of the symbol $v$"),
            (T(2, 1), "example of a sum over the symbols, $T_{kj}$"),
            ("K", r"$1 + \sigma_w^2\Phi/(\kappa L)$, posterior precision over prior precision"),
        ),
        steps=(
            moment_step(),
            gaussian_step(),
            one_mode_step(),
            matrix_marginal_step(),
            mean_data_step(),
            secular_step(),
            sums_step(),
            determinant_step(),
            inverse_step(),
            gain_step(),
            data_step(),
            mean_weights_step(),
            weights_spectrum_step(),
            losses_step(),
        ),
        finals=("sums", "determinant", "gain", "data_action", "losses"),
    )
