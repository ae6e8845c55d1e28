"""How long a metastable state of softmax attention lasts: Langer's rate in b and q.

Overdamped Langevin dynamics of the logits in units of their priors, ``dg = -grad U dt +
sqrt(2) dB`` with W integrated out, move the sums b and q over all rows slowly. Their free energy is
that of the level meanfield. Their mobility is not the local one, ``grad b . grad b``: a row copies
or does not, and b grows as rows hop from one to the other over barriers of their own. In fixed
fields rows are independent, so the effective mobility follows from one row's correlations (Green
and Kubo): ``M = L c k^-1 c`` with the covariance c of (a, n) in the fields of the saddle and the
integral k of their correlation over time. Langer's formula (Ann. Phys. 54, 258, 1969) gives the
rate of escape, ``(lambda/2 pi) sqrt(det H_minimum/|det H_saddle|) exp(-barrier)``, with lambda the
rate at which the dynamics leave the saddle.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from phasetheory.copytask.levels import landscape
from phasetheory.copytask.setting import Setting
from phasetheory.errors import ActionError, InputError
from phasetheory.landscape.phases import find_phases, states_at
from phasetheory.landscape.search import in_batches

#: rows followed in the fields of the saddle; time to equilibrium and time of correlations, in
#: units of the dynamics; steps between two looks
ROWS, WARM, SPAN, STRIDE = 2000, 60.0, 120.0, 10
#: step of the Euler scheme times the curvature of the prior and the fields
FRACTION = 0.1


@dataclass(frozen=True)
class Escape:
    """A metastable state and the way out of it.

    Attributes:
        P: number of sequences.
        barrier: free energy of the saddle above the state, in nats.
        state, saddle: (a, q) there.
        time, time_error: mean time to escape in units of the Langevin dynamics (steps times the
            step size), and its error from the rows drawn for the mobility.
        stable: whether the state is the lowest minimum.
    """

    P: float
    barrier: float
    state: tuple[float, float]
    saddle: tuple[float, float]
    time: float
    time_error: float
    stable: bool


def escape(
    setting: Setting, P: float, P_range: tuple[float, float], from_low: bool = True, seed: int = 0
) -> Escape:
    """The escape from the pooling state (or from the copying state) of softmax attention.

    Args:
        P_range: of the landscape; P lies inside, between the spinodals.
        from_low: whether the state of smaller a is left.
        seed: of the rows drawn for the mobility.

    Raises:
        InputError: if there is only one state at P.
        ActionError: if no saddle was found between the two.
    """
    found = landscape("softmax", setting, "meanfield", P_range)
    report = find_phases(found)
    states = states_at(report, P)
    if len(states) < 2:
        raise InputError(f"there is one state only at P = {P:g}: nothing to escape from")
    low, high = sorted(states, key=lambda s: float(s.order_parameters[0]))[:: len(states) - 1]
    left, right = (low, high) if from_low else (high, low)
    solution = report.solution
    scale, t = np.asarray(solution.chart.scale), float(solution.t_of(P))
    path = left.coordinates + np.linspace(0.1, 0.9, 17)[:, None] * (
        right.coordinates - left.coordinates
    )
    out = in_batches(solution.kern.saddle, solution.chart, path / scale, t)
    good = out["converged"] & (out["eigenvalues"][:, 0] < 0) & (out["eigenvalues"][:, 1] > 0)
    if not good.any():
        raise ActionError(f"no saddle was found between the two states at P = {P:g}")
    best = np.flatnonzero(good)[np.argmin(out["action"][good])]
    saddle = out["y"][best] * scale
    barrier = float(out["action"][best]) * float(solution.chart.unit) - left.action

    curvature = partial(_curvature, found, P)
    top, (b, q, fields) = curvature(saddle)
    bottom, _ = curvature(left.coordinates)
    mobility, spread = _mobility(setting, fields, seed)

    def time(mobility):
        rate = -np.linalg.eigvals(mobility @ top).real.min()
        share = np.sqrt(np.linalg.det(bottom) / abs(np.linalg.det(top)))
        return 2 * np.pi / (rate * share) * np.exp(barrier)

    value = float(time(mobility))
    L = setting.L
    return Escape(
        float(P),
        barrier,
        (float(left.order_parameters[0]), float(left.order_parameters[2])),
        (float(b) / L, float(q)),
        value,
        value * spread,
        left is states[0],
    )


def _curvature(found, P: float, x: np.ndarray):
    """Hessian of the free energy in (b, q) at a stationary point, and (b, q, the fields)."""
    theta = jax.tree.map(jnp.asarray, found.theta)

    def action(x):
        return found.action(x, P, theta)

    def sums(x):
        a, _, q = found.observe(x, P, theta)
        return jnp.stack([a * theta[0], q])

    H, J = np.asarray(jax.hessian(action)(x)), np.asarray(jax.jacfwd(sums)(x))
    inverse = np.linalg.inv(J)
    b, q = np.asarray(sums(x))
    scale = P / (found.parameters["kappa"] * found.parameters["L"])
    return inverse.T @ H @ inverse, (b, q, np.exp(np.asarray(x)) * scale)


def _mobility(setting: Setting, fields: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """The effective mobility of (b, q) in given fields, and its relative error."""
    step = FRACTION / (1 + setting.var_g * float(fields.max()) / 8)
    looks = [round(time / (step * STRIDE)) for time in (WARM, SPAN)]
    seen = np.asarray(_follow(setting.L, setting.sigma_g, *fields, step, seed, sum(looks)))
    halves = np.array_split(seen[looks[0] :], 2, axis=1)
    parts = [_effective(half, step * STRIDE) for half in halves]
    mean = (parts[0] + parts[1]) / 2
    return setting.L * mean, float(abs(parts[0] - parts[1])[0, 0] / 2 / mean[0, 0])


def _effective(values: np.ndarray, interval: float) -> np.ndarray:
    """``c k^-1 c`` of series (looks, rows, 2), with the correlation integrated to a third of their
    length."""
    x = values - values.mean(axis=(0, 1))
    length = len(x)
    spectrum = np.fft.rfft(x, 2 * length, axis=0)
    pairs = np.einsum("fri,frj->fij", spectrum.conj(), spectrum) / x.shape[1]
    correlation = np.fft.irfft(pairs, axis=0)[: length // 3]
    correlation /= (length - np.arange(length // 3))[:, None, None]
    c = correlation[0]
    k = interval * (correlation.sum(axis=0) - c / 2)
    return c @ np.linalg.inv((k + k.T) / 2) @ c


@partial(jax.jit, static_argnames=("L", "looks"))
def _follow(L: int, sigma_g, b_hat, q_hat, step, seed, looks: int):
    """(a, n) of ROWS independent rows in fields at each look, shape (looks, ROWS, 2)."""

    def seen(g):
        A = jax.nn.softmax(sigma_g * g, axis=-1)
        return jnp.stack([A[..., 0], jnp.sum(A**2, axis=-1)], axis=-1)

    def energy(g):
        a, n = jnp.moveaxis(seen(g), -1, 0)
        return jnp.sum(jnp.sum(g**2, axis=-1) / 2 - b_hat * a + q_hat * n)

    def move(g, key):
        noise = jax.random.normal(key, g.shape)
        return g - step * jax.grad(energy)(g) + jnp.sqrt(2 * step) * noise, None

    def look(g, key):
        g, _ = jax.lax.scan(move, g, jax.random.split(key, STRIDE))
        return g, seen(g)

    key_start, key = jax.random.split(jax.random.key(seed))
    start = jax.random.normal(key_start, (ROWS, L))
    # half of the rows start copying
    start = start.at[::2, 0].add(jnp.log(3.0 * L) / sigma_g)
    return jax.lax.scan(look, start, jax.random.split(key, looks))[1]
