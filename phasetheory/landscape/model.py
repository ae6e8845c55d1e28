"""What the phase finder works on, and what it returns. Plain values, no algorithms."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from phasetheory.errors import InputError

Scale = Literal["linear", "log"]
Order = Literal["first", "second", "tricritical", "undetermined"]
#: beyond this, squares and products overflow double precision
LARGEST = 1e100
EndKind = Literal["range", "spinodal", "bifurcation", "bounds", "lost"]


@dataclass(frozen=True)
class Landscape:
    """An action ``S(x; control, parameters)`` in a box, over a range of its control.

    Attributes:
        name: what the landscape is, for titles.
        variables: names of the n coordinates x in which minima are sought.
        control: name of the control parameter.
        action: pure JAX function ``(x[n], control, theta) -> scalar``, up to a constant; theta is
            the tuple of all parameters and then all arrays.
        bounds: shape (n, 2), the box in which minima are sought.
        control_range: lowest and highest control.
        control_scale: whether steps are even in the control or in its logarithm.
        parameters: numbers passed to the action, by name.
        arrays: arrays passed to the action after the parameters; of one shape for all settings of
            an action that are to share one compilation.
        observe: pure JAX function with the arguments of `action` that gives the order parameters,
            shape (m,); by default the coordinates.
        order_parameters: their m names.
        jump_parameters: those whose change measures a jump; all by default. Order parameters that
            are functions of others are left out here.
        measure: pure JAX function with the arguments of `action` that gives further observables of
            a state, shape (k,), or None.
        observables: their k names.
        descent: steps of gradient descent from a start before Newton's method takes over; none
            where the action takes long to evaluate and has no small basins.
    """

    name: str
    variables: tuple[str, ...]
    control: str
    action: Callable
    bounds: tuple[tuple[float, float], ...]
    control_range: tuple[float, float]
    control_scale: Scale = "linear"
    parameters: Mapping[str, float] = field(default_factory=dict)
    arrays: tuple[np.ndarray, ...] = ()
    observe: Callable | None = None
    order_parameters: tuple[str, ...] = ()
    jump_parameters: tuple[str, ...] = ()
    measure: Callable | None = None
    observables: tuple[str, ...] = ()
    descent: int = 30

    @property
    def theta(self) -> tuple[Any, ...]:
        """The third argument of `action`."""
        return (*(np.float64(value) for value in self.parameters.values()), *self.arrays)

    @property
    def primary_parameters(self) -> tuple[str, ...]:
        """The order parameters without coordinates that serve the search only (the logit h)."""
        return tuple(
            name
            for name in self.order_parameters
            if name in self.jump_parameters or name not in self.variables
        )

    def __post_init__(self):
        if not self.order_parameters:
            object.__setattr__(self, "order_parameters", self.variables)
        if not self.jump_parameters:
            object.__setattr__(self, "jump_parameters", self.order_parameters)
        if len(self.bounds) != len(self.variables):
            raise InputError(
                f"{len(self.variables)} variables need as many bounds, not {len(self.bounds)}"
            )
        for name, (lo, hi) in zip(self.variables, self.bounds, strict=True):
            _check_interval(f"bounds of {name}", lo, hi)
        lo, hi = self.control_range
        _check_interval(f"range of {self.control}", lo, hi)
        if self.control_scale not in ("linear", "log"):
            raise InputError(f"the scale is 'linear' or 'log', not {self.control_scale!r}")
        if self.control_scale == "log" and lo <= 0:
            raise InputError(f"a logarithmic range of {self.control} starts above 0, not at {lo:g}")


def _check_interval(what: str, lo: float, hi: float) -> None:
    if not (math.isfinite(lo) and math.isfinite(hi)):
        raise InputError(f"the {what} is not finite: {lo}:{hi}")
    if max(abs(lo), abs(hi)) > LARGEST:
        raise InputError(f"the {what} reaches beyond {LARGEST:g}; choose other units")
    if lo >= hi:
        raise InputError(f"the {what} is empty or reversed: {lo:g} is not below {hi:g}")


@dataclass(frozen=True)
class BranchEnd:
    """Where a branch of minima ends, and how.

    ``range``: at the end of the control's range; ``spinodal``: it meets a saddle and vanishes;
    ``bifurcation``: it loses stability to, or merges with, another phase; ``bounds``: it leaves the
    box; ``lost``: it could not be followed to an end.
    """

    control: float
    kind: EndKind
    error: float = 0.0


@dataclass(frozen=True)
class Phase:
    """A branch of minima, followed through the range of the control.

    Attributes:
        id: "A", "B", ... in the order of their lowest control.
        multiplicity: number of copies under symmetry found, or "continuous" for a ring of minima.
        ends: at the low and the high control.
        control: shape (N,).
        coordinates: shape (N, n).
        order_parameters: shape (N, m).
        action: shape (N,), in the units of the action.
        observables: shape (N, k).
        susceptibility: shape (N, m, m), in the order of the order parameters: the covariance
            ``J H^-1 J^T`` that the action predicts, H its Hessian and J the derivative of the order
            parameters in the coordinates.
        stiffness: shape (N,), smallest eigenvalue of the Hessian in the scaled coordinates;
            negative nowhere, zero at a loss of stability. Its unit is arbitrary.
    """

    id: str
    multiplicity: int | Literal["continuous"]
    ends: tuple[BranchEnd, BranchEnd]
    control: np.ndarray
    coordinates: np.ndarray
    order_parameters: np.ndarray
    action: np.ndarray
    observables: np.ndarray
    susceptibility: np.ndarray
    stiffness: np.ndarray

    @property
    def control_range(self) -> tuple[float, float]:
        return self.ends[0].control, self.ends[1].control


@dataclass(frozen=True)
class Transition:
    """A transition of the global minimum; ``low`` and ``high`` are the sides of the control.

    Attributes:
        order: from invariants: a jump of the order parameters at equal action is ``first``; where a
            phase loses stability to one that grows out of it, the sign of the quartic coefficient
            after eliminating the stiff directions tells ``second`` from ``tricritical``.
        control, control_error: location, and a bound on its numerical error.
        low_phase, high_phase: ids.
        low, high: order parameters on both sides, shape (m,).
        jump: Euclidean length of ``high - low`` in the landscape's jump parameters, over the
            closest copies.
        slope_change: change of dS/dcontrol from low to high.
        spinodals: where the high phase ends towards low control, and the low phase towards high
            control; None where it does not end in the range, or the transition is continuous.
        barrier: action of the lowest saddle between the phases above theirs; 0 for a continuous
            transition, None where no saddle that joins both was found.
        quartic: reduced quartic coefficient at a continuous transition, relative to its natural
            size; None for a first-order one.
    """

    order: Order
    control: float
    control_error: float
    low_phase: str
    high_phase: str
    low: np.ndarray
    high: np.ndarray
    jump: float
    slope_change: float
    spinodals: tuple[float | None, float | None]
    barrier: float | None
    quartic: float | None = None


@dataclass(frozen=True)
class Crossover:
    """A fastest change that is no transition; `definition` says of what."""

    control: float
    order_parameter: str | None
    definition: str


@dataclass(frozen=True)
class State:
    """A minimum at one control; the fields mean what they mean in `Phase`, without the N axis."""

    phase: str
    control: float
    coordinates: np.ndarray
    order_parameters: np.ndarray
    action: float
    observables: np.ndarray
    susceptibility: np.ndarray


@dataclass(frozen=True)
class PhaseReport:
    """All phases of a landscape and the transitions of its global minimum.

    `equilibrium` lists the pieces of the global minimum, (phase id, from control, to control).
    `status` is ``complete`` if every branch was followed to an end and the global minimum is known
    at every control; otherwise ``incomplete``, and `problems` says why.
    """

    landscape: Landscape
    phases: tuple[Phase, ...]
    transitions: tuple[Transition, ...]
    crossovers: tuple[Crossover, ...]
    equilibrium: tuple[tuple[str, float, float], ...]
    status: Literal["complete", "incomplete"]
    problems: tuple[str, ...] = ()
    solution: Any = field(default=None, repr=False, compare=False)
