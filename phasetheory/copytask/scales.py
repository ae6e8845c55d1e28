"""Rough sizes of the copy task: where to search, none of the results (theory note, section 4)."""

import math

from scipy.special import lambertw

from phasetheory.copytask.setting import Setting


def typical_range(attention: str, setting: Setting) -> tuple[float, float]:
    """A range of P that holds the transitions and crossovers."""
    # the effective number of symbols and all of them are the two ends of what counts as V
    ranges = [_range(attention, setting, V) for V in (setting.effective_V, setting.V)]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _range(attention: str, setting: Setting, V: float) -> tuple[float, float]:
    L, kappa, N, s = setting.L, setting.kappa, setting.head_dimension, setting.ones
    prior = kappa / (setting.sigma_g * setting.sigma_w)
    # the number of sequences that pays for the logarithms of the marginal over W
    logs = kappa * V**2 / setting.var_w * max(1.0, setting.var_w)
    if N is not None:
        onset = kappa * V * (4 * L * math.sqrt(N) / (setting.sigma_g * setting.sigma_w)) ** (2 / 3)
        if attention == "softmax":
            onset = 2 * kappa * L * math.sqrt(N) / setting.sigma_g * (1 + math.log(L))
        return _round(onset / 20, onset * max(1.0, L / min(L, N)) * 20)
    if attention == "linear":
        by_prior, by_logs = prior * V * L / s, kappa * V**2 / s**2
        copying = max(prior * L**1.5 * (V / s) ** 0.5, by_prior, by_logs)
        return _round(min(by_prior, by_logs) / 10, copying * 20)
    h = _best_logit(setting, V)
    threshold = kappa * L / setting.var_g * h * (h + 1)
    return _round(threshold / 20, (threshold + logs / s * math.log(L)) * 20)


def _round(low: float, high: float) -> tuple[float, float]:
    return float(f"{low:.1g}"), float(f"{high:.1g}")


def _best_logit(setting: Setting, V: float) -> float:
    """The copy logit that balances its prior against that of W at large L."""
    z = 2 * V * setting.L * setting.var_g / (setting.ones * setting.var_w)
    return float(lambertw(z).real) / 2


def largest_logit(setting: Setting) -> float:
    """A copy logit beyond all minima."""
    if setting.head_dimension is not None:
        return 8.0 + 2 * math.log(setting.L)
    return 8.0 + 2 * math.log(setting.L) + 2 * _best_logit(setting, setting.V)


def pooling(setting: Setting) -> float:
    """The size of alpha that balances the priors of A and W once pooling is learnt."""
    return math.sqrt(setting.ones * setting.sigma_g / (setting.sigma_w * setting.L))


def copying(setting: Setting) -> float:
    """The size of c_G that balances the priors of A and W once copying is learnt."""
    return (setting.V * setting.var_g / (setting.ones * setting.var_w * setting.L**3)) ** 0.25


def head_amplitudes(setting: Setting) -> float:
    """Amplitudes at which the priors of Q, K and W balance once a mode of A is learnt, summed."""
    N = setting.head_dimension or 1
    stiffness = math.sqrt(N) / setting.sigma_g * setting.L * setting.var_w
    rank = min(setting.L, N)
    return stiffness ** (-1 / 3) + (stiffness * rank / setting.V) ** (-1 / 3)
