"""What a network shows: order parameters, invariants, coverage and losses, from its A and W.

The names are those of the theory. Permutations of the positions leave all of them unchanged. The
sign that ``(A, W) -> (-A, -W)`` leaves open in linear attention is fixed by ``alpha >= 0``.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from phasetheory.networks.energy import Data, squared_error


def measure(
    attention: str, A: Float[Array, "L L"], W: Float[Array, "V V"], train: Data, fresh: Data
) -> dict[str, Float[Array, ""]]:
    """Observables of one network.

    Args:
        attention: "linear" or "softmax".
        train: the data set it was trained on.
        fresh: data it has not seen; with `expected_counts` the loss is the exact expectation.

    Returns:
        Linear: ``alpha = 1^T A 1/L``, and ``c_1`` and ``c_G`` of ``A = c_1 J + c_G S``. Softmax:
        ``a``, the mean weight on a token of the target, and ``a_G`` of
        ``A = (1 - a_G) J + a_G S/s``. Both: ``q = |A|^2``, ``coverage`` (share of q in the span of
        J and S), ``w_u`` and ``w`` (means of W along the constant vector and its complement),
        ``train_loss`` and ``test_loss`` per position.
    """
    S, rows = train.shift, train.predicted
    R, L = rows.sum(), A.shape[0]
    kept = A * rows[:, None]
    s = S.sum() / R
    q = jnp.sum(kept**2)
    alpha = kept.sum() / R
    b = jnp.vdot(kept, S)
    # the projection on J and S: their squares are R/L and sR, their product sR/L
    gram = jnp.array([[R / L, s * R / L], [s * R / L, s * R]])
    along = jnp.stack([alpha * R / L, b])
    c_1, c_G = jnp.linalg.solve(gram, along)
    sign = jnp.where((attention == "linear") & (alpha < 0), -1.0, 1.0)
    constant = W.mean() * W.shape[0]
    found = {
        "q": q,
        "coverage": along @ jnp.stack([c_1, c_G]) / q,
        "w_u": sign * constant,
        "w": sign * (jnp.trace(W) - constant) / (W.shape[0] - 1),
        "train_loss": squared_error(A, W, train) / (train.P * R),
        "test_loss": squared_error(A, W, fresh) / (fresh.P * R),
    }
    if attention == "linear":
        return {"alpha": sign * alpha, "c_1": sign * c_1, "c_G": sign * c_G, **found}
    return {"a": b / (s * R), "a_G": s * c_G, **found}
