"""The symbols that all derivations share, so that one letter means one thing everywhere."""

import sympy as sp

L = sp.Symbol("L", integer=True, positive=True)
V = sp.Symbol("V", integer=True, positive=True)
P = sp.Symbol("P", positive=True)
kappa = sp.Symbol("kappa", positive=True)
sigma_g = sp.Symbol("sigma_g", positive=True)
sigma_w = sp.Symbol("sigma_w", positive=True)
lam = sp.Symbol("lambda", positive=True)
#: copied tokens per row, head dimension, largest rank of the attention
s = sp.Symbol("s", integer=True, positive=True)
N = sp.Symbol("N", integer=True, positive=True)
M = sp.Symbol("M", integer=True, positive=True)

r, q = sp.symbols("r q", nonnegative=True)
b_u, b = sp.symbols("b_u b", real=True)

c_1, c_G, alpha = sp.symbols("c_1 c_G alpha", real=True)
g_1, h = sp.symbols("g_1 h", real=True)
a = sp.Symbol("a", positive=True)
a_1, a_G = sp.symbols("a_1 a_G", real=True)

#: lambda = sigma_w^2 P / (V kappa L): the signal-to-noise scale of one mode of W.
LAMBDA = sigma_w**2 * P / (V * kappa * L)

MODEL_NOTATION = (
    (L, "sequence length (positions on a ring)"),
    (V, "number of token symbols"),
    (P, "number of training sequences; the control parameter"),
    (kappa, "ridge, or temperature of the posterior"),
    (sigma_g, "prior standard deviation of an attention logit $G_{ij}$"),
    (sigma_w, "prior standard deviation of an entry of $W$"),
    ("G", r"attention logits, $L \times L$"),
    ("W", r"weights after attention, $V \times V$"),
    ("X", r"one-hot tokens of a sequence, $L \times V$"),
    ("S", "cyclic shift: the target is the previous token, $Y = S X$"),
    ("J", r"uniform pooling, $J = \mathbf{1}\mathbf{1}^{\top}/L$"),
    ("A", r"attention matrix, $L \times L$; the network is $f(X) = A X W$"),
    (
        r"\mathrm{map},\ \mathrm{tree}",
        "levels of theory: the action without and with the logarithms of the marginal over $W$",
    ),
    (lam, r"$\sigma_w^2 P/(V \kappa L)$"),
    (r, r"$\|A\mathbf{1}\|^2$, strength of the constant mode"),
    (q, r"$\|A\|_F^2$, strength of the other $V-1$ modes"),
    (b_u, r"$\mathbf{1}^{\top}A^{\top}S\mathbf{1}$, overlap with the target in the constant mode"),
    (b, r"$\operatorname{tr}(A^{\top}S)$, overlap with the target in the other modes"),
)
