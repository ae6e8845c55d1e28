"""What the sign convention of measured networks makes of a Gaussian prediction.

Linear attention leaves ``(A, W) -> (-A, -W)`` open, and a measured network is turned until
``alpha >= 0``. A sample of the disordered phase then shows ``|alpha|``, whose mean is not zero. A
theory that predicts a mean m and a covariance chi of the order parameters predicts for each of
them, x, the mean of ``x sign(alpha)``.
"""

import numpy as np
from scipy.special import erf


def folded(mean, covariance, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of ``x sign(x_sign)`` for a Gaussian vector x.

    With y = x_sign, ``E[x sign y] = m_x erf(m_y/sqrt(2 chi_yy)) + 2 chi_xy phi(z)/sqrt(chi_yy)``
    at ``z = m_y/sqrt(chi_yy)`` with the standard normal density phi; for x = y it is the mean of
    ``|y|``. Without fluctuations (chi_yy = 0) only the sign is applied.

    Args:
        mean: shape (..., m).
        covariance: shape (..., m, m).
        sign: index of the order parameter that fixes the sign.

    Returns:
        Means and variances, each of shape (..., m).
    """
    mean, covariance = np.asarray(mean, float), np.asarray(covariance, float)
    m, chi = mean[..., sign], covariance[..., sign, sign]
    still = ~(chi > 0)
    root = np.sqrt(np.where(still, 1.0, chi))
    z = m / root
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    tilt = np.where(still, np.where(m < 0, -1.0, 1.0), erf(z / np.sqrt(2)))
    push = np.where(still, 0.0, 2 * density / root)
    along = covariance[..., :, sign]
    turned = mean * tilt[..., None] + along * push[..., None]
    variance = np.diagonal(covariance, axis1=-2, axis2=-1) + mean**2 - turned**2
    return turned, variance
