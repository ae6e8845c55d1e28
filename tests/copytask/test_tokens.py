"""Settings with token probabilities: where they come from, and the landscapes they give."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from phasetheory.copytask import (
    ATTENTIONS,
    Setting,
    from_counts,
    landscape,
    parse_tokens,
    typical_range,
    zipf,
)
from phasetheory.errors import InputError
from phasetheory.landscape import find_phases, states_at

CASES = [(attention, level) for attention in ATTENTIONS for level in ("tree", "map")]
CASES.append(("linear", "meanfield"))
POINTS = {"linear": [0.3, 0.1, -3.0, -2.0], "softmax": [1.4]}


def seen(landscape_, x, P):
    values = landscape_.measure(np.array(x), P, landscape_.theta)
    return dict(zip(landscape_.observables, np.array(values).tolist(), strict=True))


# ---- probabilities -------------------------------------------------------------------------------


def test_zipf():
    assert zipf(4, 0.0) == pytest.approx([0.25] * 4, rel=1e-15)
    weights = np.array([1, 2**-1.5, 3**-1.5])
    assert zipf(3, 1.5) == pytest.approx((weights / weights.sum()).tolist(), rel=1e-15)
    assert Setting(V=3, tokens=zipf(3, 1.5)).effective_V == pytest.approx(
        weights.sum() ** 2 / (weights**2).sum()
    )
    assert Setting(V=3).effective_V == 3.0


@pytest.mark.parametrize(
    ("V", "exponent", "says"),
    [
        (1, 1.0, "from 2 to"),
        (10**9, 1.0, "from 2 to"),
        (4, -1.0, "from 0 up"),
        (4, float("nan"), "from 0 up"),
        (4, float("inf"), "from 0 up"),
        (4, 1e5, "leaves one symbol"),
    ],
)
def test_bad_zipf(V, exponent, says):
    with pytest.raises(InputError, match=says):
        zipf(V, exponent)


@pytest.mark.parametrize(
    "text",
    [
        "3\n0\n1\n",
        "# counts\n\n3\n  0 \n1",
        "a 3\nb 0\nc 1\n",
        "a\t3\nb\t0\nc\t1\n",
        '"the, one",3\n"a ""b""", 0\nc,1\n',
        "\ufeff3e0\r\n0\r\n1.0\r\n",
        "a b\t3\nb\t0\n#x\nc\t1\n",
    ],
)
def test_files_of_counts(text, tmp_path):
    (tmp_path / "counts").write_bytes(text.encode())
    assert from_counts(tmp_path / "counts") == (0.75, 0.0, 0.25)


def test_huge_counts_do_not_overflow(tmp_path):
    (tmp_path / "counts").write_text("1e308\n1e308\n")
    assert from_counts(tmp_path / "counts") == (0.5, 0.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "counts, of at least|counts of at least 2 symbols, not 0"),
        ("# nothing\n\n", "not 0"),
        ("5\n", "at least 2 symbols, not 1"),
        ("0\n0\n3\n", "at least 2 of the counts must be above zero"),
        ("1\nx\n", "line 2: a count is a number, not 'x'"),
        ("1\n\n-2\n", "line 3: a count is a number from 0 up, not '-2'"),
        ("1\nnan\n", "line 2: a count is a number from 0 up, not 'nan'"),
        ("1\ninf\n", "line 2: .* not 'inf'"),
        ("a 1\nb 2 3\n", "line 2: a line is a count, or a symbol and a count"),
        ("a,\nb,2\n", "line 1: a count is a number, not ''"),
        ("a 1\nb 1\na 2\n", "line 3: 'a' has a count in line 1"),
    ],
)
def test_bad_files_of_counts(text, says, tmp_path):
    path = tmp_path / "counts.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        from_counts(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*missing.txt: no such file"):
        from_counts(tmp_path / "missing.txt")
    with pytest.raises(InputError, match="cannot read"):
        from_counts(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="no text file"):
        from_counts(tmp_path / "binary")


def test_parse_tokens(tmp_path):
    path = tmp_path / "counts"
    path.write_text("1\n3\n")
    assert parse_tokens("uniform", 5) is None
    assert parse_tokens("zipf:1.1", 5) == zipf(5, 1.1)
    assert parse_tokens("zipf:1.1", None) == zipf(Setting.V, 1.1)
    assert parse_tokens(str(path), None) == parse_tokens(str(path), 2) == (0.25, 0.75)
    with pytest.raises(InputError, match=r"V is 3, but .* counts of 2 symbols"):
        parse_tokens(str(path), 3)
    with pytest.raises(InputError, match="takes a number, not 'x'"):
        parse_tokens("zipf:x", 4)


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        ((0.5, 0.6), "must sum to 1, not to 1.1"),
        ((0.5, 0.5 + 1e-8), "must sum to 1"),
        ((1.5, -0.5), "must be a probability, not -0.5"),
        ((0.5, float("nan")), "must be a probability, not nan"),
        ((0.5, "x"), "must be a probability, not 'x'"),
        ((1.0,), "at least 2 probabilities, not 1"),
        ((), "at least 2 probabilities, not 0"),
        ((0.5, 0.25, 0.25), "V is 2, but tokens has 3"),
        ((1.0, 0.0), "at least 2 of tokens must be above zero"),
        ([0.5, 0.5], "must be a tuple"),
    ],
)
def test_bad_probabilities(tokens, says):
    with pytest.raises(InputError, match=says):
        Setting(V=2, tokens=tokens)


# ---- landscapes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("attention", "level"), CASES)
def test_uniform_probabilities_change_nothing(attention, level):
    uniform, given = (
        landscape(attention, Setting(L=24, V=6, kappa=0.7, tokens=tokens), level)
        for tokens in (None, (1 / 6,) * 6)
    )
    assert given.control_range == uniform.control_range
    assert given.order_parameters == uniform.order_parameters
    x = POINTS[attention][: len(uniform.variables)]
    for P in (3.0, 200.0, 4000.0):
        actions = [float(f.action(np.array(x), P, f.theta)) for f in (given, uniform)]
        assert actions[0] == pytest.approx(actions[1], rel=1e-12)
        seen_given, seen_uniform = (seen(f, x, P) for f in (given, uniform))
        trace = seen_uniform.pop("w_u") + 5 * seen_uniform.pop("w")
        for name in ("w_rare", "w_frequent"):
            assert seen_given.pop(name) == pytest.approx(trace / 6, rel=1e-10)
        assert seen_given == pytest.approx(seen_uniform, rel=1e-10)


@pytest.mark.parametrize(("attention", "L"), [("linear", 16), ("softmax", 64)])
def test_uniform_probabilities_give_the_same_transition(attention, L):
    reports = [
        find_phases(landscape(attention, Setting(L=L, V=4, tokens=tokens)))
        for tokens in (None, (0.25,) * 4)
    ]
    (one,), (two,) = (report.transitions for report in reports)
    assert one.order == two.order
    assert two.control == pytest.approx(one.control, rel=1e-10)
    assert two.jump == pytest.approx(one.jump, rel=1e-9, abs=1e-9)


def test_test_losses_against_sampled_weights_and_sequences():
    """60 000 draws of W from its posterior, each with a fresh sequence, and the mean of W."""
    rng = np.random.default_rng(4)
    tokens, n, P, kappa, var_w = (0.6, 0.3, 0.1, 0.0), 5, 30.0, 0.8, 1.7
    alpha, c_G = 0.5, 0.3
    S = np.roll(np.eye(n), 1, axis=0)
    A = (alpha - c_G) * np.ones((n, n)) / n + c_G * S
    p, one = np.array(tokens), np.ones(n)
    scale = kappa * n
    moments = []
    for M in (A.T @ A, A.T @ S):
        outer = (one @ M @ one - np.trace(M)) * np.outer(p, p)
        moments.append(P * (np.trace(M) * np.diag(p) + outer))
    covariance = np.linalg.inv(np.eye(4) / var_w + moments[0] / scale)
    mean = covariance @ moments[1] / scale
    X = np.eye(4)[rng.choice(4, size=(60_000, n), p=p)]
    noise = np.linalg.cholesky(covariance) @ rng.normal(size=(60_000, 4, 4))
    # the fluctuations of W do not correlate with the tokens: their own term has the least noise
    by_mean = np.sum((S @ X - A @ X @ mean) ** 2, axis=(1, 2)) / n
    by_noise = np.sum((A @ X @ noise) ** 2, axis=(1, 2)) / n
    theory = landscape(
        "linear", Setting(L=n, V=4, kappa=kappa, var_w=var_w, tokens=tokens), "tree", (1.0, 100.0)
    )
    found = seen(theory, (alpha, c_G), P)
    for samples, expected in (
        (by_mean, found["test_loss_mean"]),
        (by_noise, found["test_loss"] - found["test_loss_mean"]),
    ):
        error = samples.std(ddof=1) / np.sqrt(len(samples))
        assert error < 0.01 * samples.mean()
        assert abs(samples.mean() - expected) < 4 * error
    assert found["w_frequent"] == pytest.approx(mean[0, 0])
    assert found["w_rare"] == pytest.approx(mean[2, 2])  # the fourth symbol never occurs
    assert found["train_loss"] == pytest.approx(found["test_loss"], rel=1e-12)


@pytest.mark.parametrize(("attention", "level"), CASES)
def test_training_loss_is_a_derivative(attention, level):
    """dS/dkappa at fixed order parameters by finite differences."""
    P, step = 120.0, 1e-5
    tokens = zipf(5, 1.3)
    x = POINTS[attention]
    actions = []
    for kappa in (1 - step, 1 + step):
        f = landscape(attention, Setting(L=12, V=5, kappa=kappa, tokens=tokens), level)
        actions.append(float(f.action(np.array(x[: len(f.variables)]), P, f.theta)))
    f = landscape(attention, Setting(L=12, V=5, tokens=tokens), level)
    slope = (actions[1] - actions[0]) / (2 * step)
    found = seen(f, x[: len(f.variables)], P)["train_loss"]
    assert found == pytest.approx(1 - 2 / P * slope, rel=1e-6)


def test_linear_onset_from_the_hessian():
    """Where the Hessian of an action written out with numpy matrices is singular at the origin."""
    n, tokens = 16, zipf(4, 1.0)
    p = np.array(tokens)

    def S(alpha, c_G, P):
        q, b = alpha**2 + (n - 1) * c_G**2, alpha + (n - 1) * c_G
        r, b_u = n * alpha**2, n * alpha
        Phi = q * np.diag(p) + (r - q) * np.outer(p, p)
        B = b * np.diag(p) + (b_u - b) * np.outer(p, p)
        K = np.eye(4) + P / n * Phi
        gain = P**2 / (2 * n**2) * np.trace(B @ np.linalg.solve(K, B))
        return n**2 * q / 2 + 2 * np.linalg.slogdet(K)[1] - gain

    (transition,) = find_phases(landscape("linear", Setting(L=n, V=4, tokens=tokens))).transitions
    assert transition.order == "second"
    h = 1e-4

    def smallest(P):
        aa = (S(h, 0, P) + S(-h, 0, P)) / h**2
        cc = (S(0, h, P) + S(0, -h, P)) / h**2
        ac = (S(h, h, P) + S(-h, -h, P) - S(h, -h, P) - S(-h, h, P)) / (4 * h**2)
        return np.linalg.eigvalsh([[aa, ac], [ac, cc]])[0]

    P = transition.control
    assert smallest(P * (1 - 1e-4)) > 0 > smallest(P * (1 + 1e-4))


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("level", ["tree", "map"])
def test_far_from_uniform(attention, level):
    """Zipf's law with exponent 3, and symbols that never occur: complete, and inside the range."""
    for tokens in (zipf(12, 3.0), (*zipf(6, 1.0), *(0.0,) * 6)):
        setting = Setting(L=64, V=12, tokens=tokens)
        low, high = typical_range(attention, setting)
        found = find_phases(landscape(attention, setting, level))
        assert found.status == "complete", found.problems
        for transition in found.transitions:
            assert 3 * low < transition.control < high / 3
        last = states_at(found, high)[0]
        assert last.observables[1] < 0.2  # the copy is learnt within the range


@pytest.mark.slow
def test_threshold_against_the_exponent_of_zipf():
    """L = 64, V = 16: the onset of linear attention falls as pooling has less to average; softmax
    attention has its first-order point later once most symbols are rare."""
    exponents = np.linspace(0, 2, 9)
    located = {}
    for attention, order in (("linear", "second"), ("softmax", "first")):
        controls = []
        for s in exponents:
            setting = Setting(L=64, V=16, tokens=zipf(16, float(s)))
            found = find_phases(landscape(attention, setting))
            assert found.status == "complete", found.problems
            (transition,) = found.transitions
            assert transition.order == order
            controls.append(transition.control)
        located[attention] = np.log(controls)
        # smooth: every other point lies on the curve through the rest
        curve = CubicSpline(exponents[::2], located[attention][::2])
        assert curve(exponents[1::2]) == pytest.approx(located[attention][1::2], abs=0.02)
    assert (np.diff(located["linear"]) < 0).all()
    assert (np.diff(located["softmax"])[exponents[:-1] >= 0.5] > 0).all()
    assert np.exp(located["linear"][[0, 4, 8]]) == pytest.approx(
        [1190.57, 520.35, 167.19], rel=1e-4
    )
    assert np.exp(located["softmax"][[0, 4, 8]]) == pytest.approx(
        [1121.41, 1148.68, 1513.62], rel=1e-5
    )
