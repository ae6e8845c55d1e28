"""A setting of the copy task."""

import math
from dataclasses import dataclass

from phasetheory.errors import InputError


@dataclass(frozen=True)
class Setting:
    """Sizes and scales of the copy task and its network (pure numbers).

    Attributes:
        L: sequence length, a whole number of at least 2.
        V: number of token symbols, a whole number of at least 2.
        kappa: ridge, or temperature of the posterior.
        var_g: prior variance of an attention logit.
        var_w: prior variance of an entry of W.
        tokens: V probabilities of the symbols, in any order; None where all are equal. A symbol of
            probability zero is one that the network has weights for and never meets; at least two
            symbols must occur.
        ones: number s of tokens that the target sums, from 1 (the copy task) to L - 1.
        head_dimension: columns N of Q and K in G = Q K^T/sqrt(N), at least 1; None for infinitely
            many, where the logits are independent.

    Raises:
        InputError: naming the value that is out of range.
    """

    L: int = 64
    V: int = 16
    kappa: float = 1.0
    var_g: float = 1.0
    var_w: float = 1.0
    tokens: tuple[float, ...] | None = None
    ones: int = 1
    head_dimension: int | None = None

    def __post_init__(self):
        lowest = {"L": 2, "V": 2, "ones": 1}
        if self.head_dimension is not None:
            lowest["head_dimension"] = 1
        for name, least in lowest.items():
            value, shown = getattr(self, name), name.replace("_", " ")
            if not isinstance(value, int) or isinstance(value, bool):
                raise InputError(f"{shown} must be a whole number, not {value!r}")
            if value < least:
                raise InputError(f"{shown} must be at least {least}, not {value}")
            if value > 10**9:
                raise InputError(f"{shown} must be at most 10^9, not {value}")
        if self.ones >= self.L:
            raise InputError(
                f"ones must be below L = {self.L}, not {self.ones}: a target that sums all tokens "
                "is uniform pooling"
            )
        for name in ("kappa", "var_g", "var_w"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise InputError(f"{name} must be a positive number, not {value!r}")
        if self.tokens is not None:
            _check_probabilities(self.tokens)
            if len(self.tokens) != self.V:
                raise InputError(f"V is {self.V}, but tokens has {len(self.tokens)} probabilities")

    @property
    def plain(self) -> bool:
        """Equally frequent tokens, a target of one token, an infinite head dimension."""
        return self.tokens is None and self.ones == 1 and self.head_dimension is None

    @property
    def sigma_g(self) -> float:
        return math.sqrt(self.var_g)

    @property
    def sigma_w(self) -> float:
        return math.sqrt(self.var_w)

    @property
    def effective_V(self) -> float:
        """The effective number of symbols, ``1 / sum p_v^2``: V where all are equally frequent."""
        if self.tokens is None:
            return float(self.V)
        return 1 / math.fsum(p**2 for p in self.tokens)


def _check_probabilities(tokens: tuple[float, ...]) -> None:
    if not isinstance(tokens, tuple):
        raise InputError(f"tokens must be a tuple of probabilities, not {type(tokens).__name__}")
    if len(tokens) < 2:
        raise InputError(f"tokens needs at least 2 probabilities, not {len(tokens)}")
    for p in tokens:
        if not (isinstance(p, int | float) and math.isfinite(p) and p >= 0):
            raise InputError(f"each of tokens must be a probability, not {p!r}")
    total = math.fsum(tokens)
    if abs(total - 1) > 1e-9:
        raise InputError(f"tokens must sum to 1, not to {total:.12g}")
    if sum(p > 0 for p in tokens) < 2:
        raise InputError("at least 2 of tokens must be above zero")
