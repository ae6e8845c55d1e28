"""Functions that SymPy lacks and the actions need in a form that does not overflow."""

import sympy as sp


class logistic(sp.Function):
    r"""The logistic function :math:`1/(1+e^{-z})`, kept whole so that it can be lowered stably.

    `rewrite(sp.exp)` gives the elementary form; `diff` gives ``logistic(z) * logistic(-z)``.
    """

    nargs = 1

    def fdiff(self, argindex=1):
        (z,) = self.args
        return logistic(z) * logistic(-z)

    def _eval_rewrite_as_exp(self, z, **_):
        return 1 / (1 + sp.exp(-z))

    def _eval_evalf(self, prec):
        return self.rewrite(sp.exp).evalf(n=max(15, int(prec / 3.3)))

    def _eval_is_positive(self):
        return self.args[0].is_extended_real

    def _latex(self, printer, exp=None):
        inner = rf"\operatorname{{logistic}}\left({printer._print(self.args[0])}\right)"
        return inner if exp is None else rf"{inner}^{{{exp}}}"
