"""The copy task as data: sequences, targets, and what a full-batch loss needs of them."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from phasetheory.errors import InputError


@dataclass(frozen=True)
class CopyTask:
    """Sequences of i.i.d. tokens whose target at each position sums the tokens just before it.

    Attributes:
        L: sequence length.
        V: number of token symbols.
        tokens: V probabilities; None where all are equal.
        ones: how many preceding tokens the target sums.
        cyclic: whether positions lie on a ring. Otherwise the first `ones` positions, which have
            no complete target, are not predicted, and the loss averages over the others.

    Raises:
        InputError: naming the value that is out of range.
    """

    L: int
    V: int
    tokens: tuple[float, ...] | None = None
    ones: int = 1
    cyclic: bool = True

    def __post_init__(self):
        for name, least in (("L", 2), ("V", 2), ("ones", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, not {value}")
        if self.ones >= self.L:
            raise InputError(f"ones must be below L = {self.L}, not {self.ones}")
        if self.tokens is not None and len(self.tokens) != self.V:
            raise InputError(f"V is {self.V}, but tokens has {len(self.tokens)} probabilities")
        p = self.probabilities
        if not (np.isfinite(p).all() and (p >= 0).all() and math.isclose(p.sum(), 1)):
            raise InputError("tokens must be probabilities that sum to 1")

    @cached_property
    def probabilities(self) -> np.ndarray:
        """p_v, shape (V,)."""
        return np.full(self.V, 1 / self.V) if self.tokens is None else np.array(self.tokens)

    @cached_property
    def shift(self) -> np.ndarray:
        """The target matrix S of ``Y = S X``, shape (L, L); zero rows are not predicted."""
        S = np.sum([np.roll(np.eye(self.L), k, 0) for k in range(1, self.ones + 1)], axis=0)
        return S if self.cyclic else np.where(np.arange(self.L)[:, None] < self.ones, 0.0, S)

    @cached_property
    def predicted(self) -> np.ndarray:
        """1 at predicted positions and 0 at others, shape (L,)."""
        return (self.shift.sum(axis=1) > 0).astype(float)

    @property
    def positions(self) -> int:
        """Number R of predicted positions, over which losses average."""
        return int(self.predicted.sum())


def sample_sequences(task: CopyTask, P: int, seed: int) -> np.ndarray:
    """P sequences, shape (P, L), of symbols 0 .. V-1. The first sequences of a longer set of the
    same seed are the same.

    Raises:
        InputError: if P or the seed is out of range.
    """
    if not 1 <= P <= 10**8:
        raise InputError(f"P must be from 1 to 10^8 sequences, not {P}")
    if seed < 0:
        raise InputError(f"the seed must be 0 or above, not {seed}")
    uniform = np.random.Generator(np.random.Philox(seed)).random((P, task.L))
    edges = np.cumsum(task.probabilities)
    return np.searchsorted(edges / edges[-1], uniform, side="right").astype(np.int32)


@dataclass(frozen=True)
class PairCounts:
    """What the squared error of a whole data set depends on; its size does not grow with P.

    Attributes:
        M: ``M[(j, k), (b, c)] = sum over sequences of x_jb x_kc``, shape (L^2, V^2).
        target_square: sum over sequences and predicted positions of ``|y_i|^2``.
        P: number of sequences.
    """

    M: np.ndarray
    target_square: float
    P: float


def pair_counts(task: CopyTask, sequences: np.ndarray) -> PairCounts:
    """The counts of a data set of shape (P, L)."""
    L, V = task.L, task.V
    total = np.zeros((L * V, L * V))
    block = max(1, 2**24 // (L * V))  # below 2^24 a float32 counts exactly
    for start in range(0, len(sequences), block):
        one_hot = np.eye(V, dtype=np.float32)[sequences[start : start + block]]
        one_hot = one_hot.reshape(-1, L * V)
        total += one_hot.T @ one_hot
    return _counts(task, total, len(sequences))


def expected_counts(task: CopyTask, P: float = 1.0) -> PairCounts:
    """The counts of P sequences on average: ``E x_jb x_kc`` is ``p_b p_c``, or ``p_b`` on the
    diagonal where both are the same token."""
    L, V, p = task.L, task.V, task.probabilities
    pairs = np.broadcast_to(np.outer(p, p)[None, :, None, :], (L, V, L, V)).copy()
    pairs[np.arange(L), :, np.arange(L), :] = np.diag(p)
    return _counts(task, P * pairs.reshape(L * V, L * V), P)


def _counts(task: CopyTask, pairs: np.ndarray, P: float) -> PairCounts:
    L, V = task.L, task.V
    pairs = pairs.reshape(L, V, L, V)
    overlap = np.einsum("jbkb->jk", pairs)
    square = float(np.sum((task.shift.T @ task.shift) * overlap))
    return PairCounts(
        np.ascontiguousarray(pairs.transpose(0, 2, 1, 3)).reshape(L * L, V * V), square, P
    )
