"""What a derivation is made of."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy as sp


@dataclass(frozen=True)
class Step:
    """One step of a derivation.

    Attributes:
        key: short name by which code and tests find the step.
        title: heading for readers.
        statement: what is claimed, prose with LaTeX between dollar signs.
        expression: the claim as a SymPy object; where it is an equation, its right-hand side is
            what the next steps and the compiled functions use.
        why: the justification, prose with LaTeX between dollar signs.
    """

    key: str
    title: str
    statement: str
    expression: sp.Basic
    why: str

    @property
    def value(self) -> Any:
        """The right-hand side of an equation, or the expression itself."""
        return self.expression.rhs if isinstance(self.expression, sp.Eq) else self.expression


@dataclass(frozen=True)
class Derivation:
    """An ordered list of steps with the notation they use.

    `notation` pairs each symbol (a SymPy object, or LaTeX where the object is no SymPy one) with
    its meaning. `finals` names the steps whose expressions are the results.
    """

    key: str
    title: str
    summary: str
    notation: tuple[tuple[sp.Basic | str, str], ...]
    steps: tuple[Step, ...]
    finals: tuple[str, ...]

    def __getitem__(self, key: str) -> Step:
        for step in self.steps:
            if step.key == key:
                return step
        raise KeyError(f"{key!r} is no step of {self.key!r}; steps: {[s.key for s in self.steps]}")

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)
