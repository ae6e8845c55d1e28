"""The task's moments and the exact marginal over W: what both attentions share.

Model (ours; normalisations chosen so that the published scalings of arXiv 2606.12058 come out):
``f(X) = A X W``, ``W_ab ~ N(0, sigma_w^2)``, target ``Y = S X`` with the cyclic shift ``S``, and
``posterior ~ prior * exp(-(1/2 kappa) sum_mu (1/L) ||Y - A X W||^2)``.
"""

from functools import cache

import sympy as sp

from phasetheory.symbolic.steps import Step
from phasetheory.symbolic.symbols import L, P, V, b, b_u, kappa, lam, q, r, sigma_w

#: trace and sum of all entries of a fixed L x L matrix M
trace_M = sp.Symbol("tau_M", real=True)
total_M = sp.Symbol("s_M", real=True)
#: probabilities of two symbols, and the Kronecker symbols of positions and of symbols
p_c, p_d = sp.symbols("p_c p_d", nonnegative=True)
same_position, same_symbol = sp.symbols("delta_ij delta_cd", nonnegative=True)

#: one mode of W: data strength phi (eigenvalue of Phi) and overlap beta (eigenvalue of B)
phi = sp.Symbol("phi", nonnegative=True)
beta = sp.Symbol("beta", real=True)
#: precision and linear field of a one-dimensional Gaussian integral
precision = sp.Symbol("Lambda", positive=True)
field = sp.Symbol("j", real=True)


def token_moment(probabilities, trace, total) -> sp.Matrix:
    """E[X^T M X] for any token probabilities, from the step ``moment``.

    Args:
        probabilities: V numbers or symbols ``p_v``.
        trace, total: the trace and the sum of all entries of M.

    Returns:
        The V x V matrix, diagonal plus rank one.
    """
    entry = moment_step().value

    def at(i: int, j: int):
        values = {
            p_c: probabilities[i],
            p_d: probabilities[j],
            same_symbol: int(i == j),
            trace_M: trace,
            total_M: total,
        }
        return entry.subs(values, simultaneous=True)

    n = len(probabilities)
    return sp.Matrix(n, n, at)


@cache
def moment_step() -> Step:
    pair = same_position * same_symbol * p_c + (1 - same_position) * p_c * p_d
    pair = sp.expand(pair)
    # sum_ij M_ij (k_0 + k_1 delta_ij) = k_0 * (sum of M) + k_1 * (trace of M)
    value = pair.coeff(same_position, 1) * trace_M + pair.coeff(same_position, 0) * total_M
    return Step(
        "moment",
        "Moments of the tokens",
        r"For any fixed matrix $M$ with trace $\tau_M$ and sum of entries $s_M$, and any token "
        r"probabilities $p_v$, the entries of $\mathbb{E}[X^{\top} M X]$ are",
        sp.Eq(sp.Symbol("m_cd"), sp.collect(sp.expand(value), [trace_M, total_M]), evaluate=False),
        r"Two different positions hold independent symbols, one position holds one symbol: "
        r"$\mathbb{E}[x_{ic}x_{jd}] = \delta_{ij}\delta_{cd}\,p_c + (1-\delta_{ij})\,p_c p_d$. "
        r"Summing against $M_{ij}$ leaves only its trace and its total.",
    )


@cache
def spectrum_step() -> Step:
    uniform = moment_step().value.subs({p_c: 1 / V, p_d: 1 / V})
    off = uniform.subs(same_symbol, 0)
    diagonal = sp.simplify(uniform.subs(same_symbol, 1) - off)
    constant = sp.simplify(diagonal + V * off)
    return Step(
        "spectrum",
        "Two eigenspaces for uniform tokens",
        r"For $p_v = 1/V$ the matrix $\mathbb{E}[X^{\top}MX]$ has the eigenvalue $m_u$ on the "
        r"constant vector and $m_\perp$ on the $V-1$ dimensions orthogonal to it:",
        sp.Tuple(
            sp.Eq(sp.Symbol("m_u"), constant, evaluate=False),
            sp.Eq(sp.Symbol(r"m_\perp"), diagonal, evaluate=False),
        ),
        r"The matrix is a multiple of the identity plus a multiple of "
        r"$\mathbf{1}\mathbf{1}^{\top}$.",
    )


@cache
def gaussian_step() -> Step:
    w = sp.Symbol("w", real=True)
    shifted = sp.expand((-precision * w**2 / 2 + field * w).subs(w, w + field / precision))
    peak = shifted.subs(w, 0)
    integral = sp.exp(peak) * sp.integrate(sp.exp(shifted - peak), (w, -sp.oo, sp.oo))
    return Step(
        "gaussian",
        "Gaussian integral",
        r"For $\Lambda > 0$, $\int \mathrm{d}w\, e^{-\Lambda w^2/2 + j w}$ is",
        sp.Eq(sp.Symbol("I"), integral, evaluate=False),
        r"Completing the square at $w = j/\Lambda$.",
    )


def _posterior_precision() -> sp.Expr:
    return 1 / sigma_w**2 + phi / (kappa * L)


@cache
def one_mode_step() -> Step:
    weighted = gaussian_step().value / sp.sqrt(2 * sp.pi * sigma_w**2)
    log_weight = sp.expand_log(sp.log(weighted), force=True)
    fit = log_weight.coeff(field, 2) * (beta / (kappa * L)) ** 2
    width = log_weight.subs(field, 0)
    # The two logs of `width` are one: -(1/2) log(sigma_w^2 Lambda).
    cost = sp.log(sp.exp(sp.logcombine(-2 * width))) / 2
    value = (cost - fit).subs(precision, _posterior_precision())
    value = value.replace(sp.log, lambda x: sp.log(sp.expand(x)))
    return Step(
        "one_mode",
        "One mode of W",
        r"One component $w \sim N(0, \sigma_w^2)$ of $W$, which meets the data through its squared "
        r"strength $\phi$ and its overlap $\beta$ with the target, contributes to minus the log of "
        r"the marginal likelihood",
        sp.Eq(sp.Symbol("s_mode"), value, evaluate=False),
        r"The prior density of $w$ times "
        r"$\exp\!\left(-\frac{\phi w^2}{2\kappa L} + \frac{\beta w}{\kappa L}\right)$ is the "
        r"previous integral with $\Lambda = 1/\sigma_w^2 + \phi/\kappa L$ and "
        r"$j = \beta/\kappa L$.",
    )


@cache
def matrix_marginal_step() -> Step:
    n = sp.Symbol("V", integer=True, positive=True)
    Phi = sp.MatrixSymbol("Phi", n, n)
    B = sp.MatrixSymbol("B", n, n)
    K = sp.Identity(n) + sigma_w**2 / (kappa * L) * Phi
    gain = sp.Trace(B.T * K.I * B)
    value = n * sp.log(sp.Determinant(K)) / 2 - sigma_w**2 / (2 * kappa**2 * L**2) * gain
    return Step(
        "marginal",
        "The marginal over W, for any data",
        r"With $\Phi = \sum_\mu X^{\top}A^{\top}AX$ and $B = \sum_\mu X^{\top}A^{\top}SX$ the "
        r"weights $W$ integrate out exactly. Up to the constant "
        r"$\sum_\mu \|Y^\mu\|^2/(2\kappa L)$, which is $P/2\kappa$ for one copied token, minus the "
        r"log of the marginal likelihood is",
        sp.Eq(sp.Symbol("S_exact"), value, evaluate=False),
        r"The exponent is quadratic in $W$ and its $V$ columns are independent given $A$; in the "
        r"eigenbasis of $\Phi$ each entry is one mode of the previous step.",
    )


@cache
def data_action_step() -> Step:
    """S_data for uniform tokens; `data_log_cost` and `data_gain` are its two parts."""
    return Step(
        "data_action",
        "The data term for uniform tokens",
        r"With $\Phi$ and $B$ replaced by their means over the data (valid for $PL \gg V$), "
        r"$\lambda = \sigma_w^2 P/(V\kappa L)$, $r = \|A\mathbf{1}\|^2$, $q = \|A\|_F^2$, "
        r"$b_u = \mathbf{1}^{\top}A^{\top}S\mathbf{1}$ and $b = \operatorname{tr}(A^{\top}S)$,",
        sp.Eq(sp.Symbol("S_data"), data_log_cost() + data_gain(), evaluate=False),
        r"$\mathbb{E}\,\Phi = P\,\mathbb{E}[X^{\top}(A^{\top}A)X]$ has eigenvalues $Pr/V$ and "
        r"$Pq/V$, $\mathbb{E}\,B$ has $Pb_u/V$ and $Pb/V$. Each eigenvector $k$ of $\Phi$ counts "
        r"once for each of the $V$ columns of $W$ in the logarithm, and once, with overlap "
        r"$\beta_k$, in the gain.",
    )


def _modes() -> list[tuple[sp.Expr, sp.Expr, sp.Expr]]:
    """(how many modes, eigenvalue of E Phi, eigenvalue of E B) for the two eigenspaces."""
    constant, rest = (equation.rhs for equation in spectrum_step().expression.args)
    # M = A^T A has total r and trace q; M = A^T S has total b_u and trace b.
    return [
        (count, P * m.subs({total_M: r, trace_M: q}), P * m.subs({total_M: b_u, trace_M: b}))
        for count, m in ((sp.Integer(1), constant), (V - 1, rest))
    ]


def _in_lambda(expression: sp.Expr, strength: sp.Expr, overlap: sp.Expr) -> sp.Expr:
    """A one-mode expression at given eigenvalues, with sigma_w^2 P/(V kappa L) written lambda."""
    inserted = expression.subs({phi: strength, beta: overlap})
    in_lambda = inserted.subs(sigma_w, sp.sqrt(lam * V * kappa * L / P))
    return sp.factor(in_lambda.replace(sp.log, lambda x: sp.log(sp.expand(x))))


@cache
def data_log_cost() -> sp.Expr:
    """The log determinant: the cost of the posterior narrowing of W, in lambda, r, q."""
    log_part = one_mode_step().value.subs(beta, 0)
    return sum(count * V * _in_lambda(log_part, strength, 0) for count, strength, _ in _modes())


@cache
def data_gain() -> sp.Expr:
    """Minus the fit that the posterior mean of W reaches, in P, lambda, r, q, b_u, b."""
    mode = one_mode_step().value
    gain = mode - mode.subs(beta, 0)
    return sum(count * _in_lambda(gain, *eigenvalues) for count, *eigenvalues in _modes())


@cache
def posterior_step() -> Step:
    mean = beta / (kappa * L * _posterior_precision())
    variance = 1 / _posterior_precision()
    (_, *constant), (_, *rest) = _modes()
    return Step(
        "posterior",
        "The posterior of W given A",
        r"The posterior mean of $W$ has the eigenvalue $w_u$ on the constant vector and $w$ on the "
        r"rest; every entry in the two eigenspaces has the variance $v_u$, $v$:",
        sp.Tuple(
            sp.Eq(sp.Symbol("w_u"), _in_lambda(mean, *constant), evaluate=False),
            sp.Eq(sp.Symbol("w"), _in_lambda(mean, *rest), evaluate=False),
            sp.Eq(
                sp.Symbol("v_u"),
                sigma_w**2 * _in_lambda(variance / sigma_w**2, *constant),
                evaluate=False,
            ),
            sp.Eq(
                sp.Symbol("v"),
                sigma_w**2 * _in_lambda(variance / sigma_w**2, *rest),
                evaluate=False,
            ),
        ),
        r"Mean $j/\Lambda$ and variance $1/\Lambda$ of the one-mode Gaussian, with the eigenvalues "
        r"of the previous step.",
    )


def marginal_steps() -> tuple[Step, ...]:
    """The steps from the model to S_data, in order."""
    return (
        moment_step(),
        spectrum_step(),
        gaussian_step(),
        one_mode_step(),
        matrix_marginal_step(),
        data_action_step(),
        posterior_step(),
    )
