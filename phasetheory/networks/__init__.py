"""What is trained and sampled: data, attention networks, energies, samplers, Adam, diagnostics.

Nothing here knows a theory. Parameters are kept in units of their Gaussian priors; the energy is
minus the logarithm of the posterior, so that its stationary law is what SGLD samples and its
minimum what Adam with weight decay finds. Chains and runs advance together, many at once, and go
on from checkpoints to the same numbers, bit for bit.
"""

from phasetheory.networks.adam import Minima, Training, train
from phasetheory.networks.attention import Network
from phasetheory.networks.chains import Chains, Plan, problem, sample_chains
from phasetheory.networks.diagnostics import Estimate, estimate
from phasetheory.networks.samplers import Problem, Sampler
from phasetheory.networks.task import CopyTask

__all__ = [
    "Chains",
    "CopyTask",
    "Estimate",
    "Minima",
    "Network",
    "Plan",
    "Problem",
    "Sampler",
    "Training",
    "estimate",
    "problem",
    "sample_chains",
    "train",
]
