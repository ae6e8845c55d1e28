"""First-passage times of networks out of a metastable state, by Langevin dynamics."""

from dataclasses import dataclass
from functools import partial

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

from phasetheory.networks.attention import Network, attention_matrix, prior_sample
from phasetheory.networks.energy import Data, collapsed_energy
from phasetheory.networks.samplers import largest_curvature

#: steps between two looks at the attention
STRIDE = 20


@dataclass(frozen=True)
class Passages:
    """First-passage times of many chains.

    Attributes:
        times: (chains,) in units of the dynamics (steps times `step`); infinite where a chain did
            not pass.
        step: step size; limit: time until which chains were watched.
        mean, error: of an exponential law that is cut off at `limit`: time at risk over the number
            of passages, and its standard error.
    """

    times: np.ndarray
    step: float
    limit: float
    mean: float
    error: float


def first_passages(
    network: Network,
    data: Data,
    threshold: float,
    limit: float,
    *,
    chains: int = 64,
    fraction: float = 0.1,
    relax: float = 5.0,
    seed: int = 0,
) -> Passages:
    """How long chains that start in the pooling state take to a mean weight above a threshold.

    W is integrated out; the logits move by the Euler scheme of ``dg = -grad U dt + sqrt(2) dB`` in
    units of their priors. Chains start at prior samples, and time counts from `relax` on.

    Args:
        threshold: of the mean weight a on the copied token, beyond the saddle.
        limit: time until which chains are watched.
        fraction: step times the largest curvature met at the start.
    """
    keys = jax.random.split(jax.random.key(seed), chains)
    start = jax.vmap(lambda k: prior_sample(network, k)["g"])(keys)

    def energy(position):
        return collapsed_energy(network, position, data)

    curvature = jax.jit(jax.vmap(lambda g: largest_curvature(energy, {"g": g})))(start[:8]).max()
    step = float(fraction / curvature)
    looks = int(np.ceil((relax + limit) / (step * STRIDE)))
    seen = np.asarray(_run(network, data, start, step, jax.random.key(seed + 1), looks))
    times = (np.arange(1, looks + 1) * STRIDE * step - relax)[:, None]
    passed = (seen > threshold) & (times > 0)
    first = np.where(passed.any(axis=0), times[passed.argmax(axis=0), 0], np.inf)
    at_risk = np.minimum(first, limit).sum()
    count = int(np.isfinite(first).sum())
    mean = at_risk / count if count else np.inf
    return Passages(first, step, limit, mean, mean / np.sqrt(count) if count else np.inf)


@partial(jax.jit, static_argnames=("network", "looks"))
def _run(network: Network, data: Data, start, step, key, looks: int):
    """The mean weight on the copied token at each look, shape (looks, chains)."""
    kernel = blackjax.sgmcmc.sgld.build_kernel()
    R = data.predicted.sum()

    def downhill(g, minibatch):
        del minibatch
        return -jax.grad(lambda g: collapsed_energy(network, {"g": g}, data))(g)

    def move(g, key):
        keys = jax.random.split(key, g.shape[0])
        return jax.vmap(lambda k, g: kernel(k, g, downhill, None, step))(keys, g), None

    def look(g, key):
        g, _ = jax.lax.scan(move, g, jax.random.split(key, STRIDE))
        A = jax.vmap(lambda g: attention_matrix(network, {"g": g}))(g)
        return g, jnp.einsum("nij,ij->n", A, data.shift) / R

    return jax.lax.scan(look, start, jax.random.split(key, looks))[1]
