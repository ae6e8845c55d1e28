"""One-layer attention ``f(X) = A X W`` with Gaussian priors, as pure functions of its parameters.

All parameters are kept in units of their priors: a prior sample is standard normal, and the prior
energy is half the sum of squares.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import phasetheory._jax  # noqa: F401 (64 bits)
from phasetheory.errors import InputError

EMBEDDINGS = ("one-hot", "fixed", "learnt")
Parameters = dict[str, Array]


@dataclass(frozen=True)
class Network:
    """Sizes, scales and parametrisation of the network.

    Attributes:
        attention: "linear" (``A = G/L``) or "softmax" (rows of A are softmax of rows of G).
        L, V: sequence length and number of symbols.
        var_g: prior variance of a logit; at a finite head dimension Q and K have the variance
            ``sigma_g`` each, so that G has ``var_g``.
        var_w: prior variance of an entry of W.
        head_dimension: columns N of Q and K in ``G = Q K^T/sqrt(N)``; None for independent logits.
        embedding: what Q and K read the position from: "one-hot" (Q and K are free (L, N)
            matrices), or an (L, D) matrix E of standard normal entries, "fixed" or "learnt", with
            ``Q = E U_Q/sqrt(D)`` and likewise K. The last two need a head dimension.
        embedding_dimension: D.

    Raises:
        InputError: for an unknown attention or embedding, or sizes out of range.
    """

    attention: str
    L: int
    V: int
    var_g: float = 1.0
    var_w: float = 1.0
    head_dimension: int | None = None
    embedding: str = "one-hot"
    embedding_dimension: int | None = None

    def __post_init__(self):
        if self.attention not in ("linear", "softmax"):
            raise InputError(f"attention is linear or softmax, not {self.attention!r}")
        if self.embedding not in EMBEDDINGS:
            raise InputError(f"embedding is {', '.join(EMBEDDINGS)}, not {self.embedding!r}")
        if self.head_dimension is not None and self.head_dimension < 1:
            raise InputError(f"head dimension must be at least 1, not {self.head_dimension}")
        if self.embedding != "one-hot" and self.head_dimension is None:
            raise InputError(f"a {self.embedding} embedding needs a head dimension")
        if (self.embedding == "one-hot") != (self.embedding_dimension is None):
            raise InputError("an embedding dimension goes with a fixed or learnt embedding")
        if self.embedding_dimension is not None and self.embedding_dimension < 1:
            raise InputError(
                f"embedding dimension must be at least 1, not {self.embedding_dimension}"
            )
        for name in ("var_g", "var_w"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{name} must be a positive number, not {value!r}")

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Shapes of the attention's parameters and of W."""
        L, N, D = self.L, self.head_dimension, self.embedding_dimension
        if N is None:
            attention = {"g": (L, L)}
        elif D is None:
            attention = {"q": (L, N), "k": (L, N)}
        else:
            attention = {"u_q": (D, N), "u_k": (D, N)}
            if self.embedding == "learnt":
                attention["e"] = (L, D)
        return {**attention, "w": (self.V, self.V)}


def prior_sample(network: Network, key: Array) -> Parameters:
    """Parameters from the prior, in units of the prior."""
    keys = jax.random.split(key, len(network.shapes))
    return {
        name: jax.random.normal(k, shape)
        for k, (name, shape) in zip(keys, network.shapes.items(), strict=True)
    }


def logits(network: Network, parameters: Parameters) -> Float[Array, "L L"]:
    """The attention logits G."""
    if "g" in parameters:
        return math.sqrt(network.var_g) * parameters["g"]
    if "q" in parameters:
        Q, K = parameters["q"], parameters["k"]
    else:
        E = parameters.get("e")
        E = fixed_embedding(network) if E is None else E
        scale = 1 / math.sqrt(E.shape[1])
        Q, K = E @ parameters["u_q"] * scale, E @ parameters["u_k"] * scale
    return math.sqrt(network.var_g) * Q @ K.T / math.sqrt(Q.shape[1])


def fixed_embedding(network: Network) -> Float[Array, "L D"]:
    """The embedding of positions that is not trained, the same for all runs."""
    return jax.random.normal(jax.random.key(0), (network.L, network.embedding_dimension or 1))


def attention_matrix(network: Network, parameters: Parameters) -> Float[Array, "L L"]:
    """A."""
    G = logits(network, parameters)
    return G / network.L if network.attention == "linear" else jax.nn.softmax(G, axis=-1)


def weights(network: Network, parameters: Parameters) -> Float[Array, "V V"]:
    """W."""
    return math.sqrt(network.var_w) * parameters["w"]


def copy_start(network: Network, shift, parameters: Parameters) -> Parameters:
    """Parameters moved to where the network copies, what else they hold left as it is.

    Linear attention gets the amplitude at which the priors of a copying A and of its W cost
    least together, ``c^2 = sigma_g sqrt(V)/(sigma_w L^(3/2))``; softmax attention a weight of
    about 3/4 on the target's tokens.

    Args:
        shift: target matrix, shape (L, L).

    Raises:
        InputError: for an embedding in which copying cannot be written down.
    """
    if network.embedding != "one-hot":
        raise InputError("a start from the copy state needs the embedding one-hot")
    L, S = network.L, jnp.asarray(shift)
    sigma_g, sigma_w = math.sqrt(network.var_g), math.sqrt(network.var_w)
    if network.attention == "linear":
        c = (sigma_g * math.sqrt(network.V) / sigma_w) ** 0.5 / L**0.75
        height, w = L * c, 1 / c
    else:
        # exp of the other logits averages exp(var_g/2) where these are spread as in the prior
        spread = float(jnp.std(logits(network, parameters)))
        height, w = math.log(3 * L) + spread**2 / 2, 1.0
    copy = {"w": w / sigma_w * jnp.eye(network.V)}
    target = height / sigma_g * S
    if network.head_dimension is None:
        return {"g": parameters["g"] + target, **copy}
    N = network.head_dimension
    left, values, right = jnp.linalg.svd(target * math.sqrt(N))
    rank = min(N, L)
    root = jnp.sqrt(values[:rank])
    q, k = left[:, :rank] * root, right[:rank].T * root
    return {
        "q": parameters["q"].at[:, :rank].add(q),
        "k": parameters["k"].at[:, :rank].add(k),
        **copy,
    }
