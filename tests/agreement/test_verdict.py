"""Verdicts on constructed numbers."""

import pytest

from phasetheory.agreement.theory import Prediction
from phasetheory.agreement.values import Value
from phasetheory.agreement.verdict import compare, judge, worst


def value(mean, error=0.001, **more):
    return Value(mean, error, error, None, **more)


def minimum(phase, stable, **means):
    return Prediction(phase, stable, means, {}, {}, 0.0)


MINIMA = [minimum("B", True, a=0.4), minimum("A", False, a=0.05)]


@pytest.mark.parametrize(
    ("measured", "verdict", "text"),
    [
        (value(0.4025), "agrees", "agrees"),
        (value(0.43, bias=-0.03), "agrees", "agrees"),
        (value(0.43, bias=0.02), "disagrees", "disagrees"),
        (value(0.41), "agrees within tolerance", "agrees within 2.5 %"),
        (value(0.05), "metastable", "metastable (A)"),
        (value(0.052), "metastable", "metastable (A)"),
        (value(0.2), "disagrees", "disagrees"),
        (value(0.4, trouble="R-hat 1.20"), "not converged", "not converged: R-hat 1.20"),
        (None, "not converged", "not converged: nothing was measured"),
    ],
)
def test_verdicts(measured, verdict, text):
    found = compare("a", measured, MINIMA, 0.05)
    assert (found.verdict, found.text) == (verdict, text)
    if verdict == "metastable":
        assert found.phase == "A" and found.difference == pytest.approx(measured.mean - 0.05)
    elif measured is not None:
        assert found.phase == "B" and found.difference == pytest.approx(measured.mean - 0.4)


def test_the_run_as_a_whole():
    found = compare("a", value(0.4), MINIMA, 0.05, "the budget was spent")
    assert found.verdict == "not converged" and "budget" in found.text
    assert compare("a", value(0.4), [], 0.05).verdict == "not compared"
    # an order parameter that this level does not have
    assert compare("q", value(9.0), MINIMA, 0.05).verdict == "not compared"


def test_absolute_tolerance_is_for_amplitudes_that_may_vanish():
    assert judge("c_G", value(0.008), 0.0, 0.05)[1] == "agrees within 0.0080"
    assert judge("c_G", value(0.012), 0.0, 0.05)[0] == "disagrees"
    assert judge("a", value(0.048), 0.04, 0.05)[0] == "disagrees"
    assert judge("q", value(0.008), 0.0, 0.05)[0] == "disagrees"


def test_tolerance_is_the_users():
    assert judge("a", value(0.44), 0.4, 0.2)[0] == "agrees within tolerance"
    assert judge("a", value(0.44), 0.4, 0.01)[0] == "disagrees"


def test_worst():
    assert worst(["agrees", "metastable", "agrees within tolerance"]) == "metastable"
    assert worst(["disagrees", "not converged"]) == "not converged"
    assert worst([]) == "not compared"
