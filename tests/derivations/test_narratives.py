"""The derivations to read run, and their closing numbers are right."""

import runpy
from pathlib import Path

import pytest

from phasetheory.copytask import Setting, landscape, zipf
from phasetheory.landscape import find_phases

FOLDER = Path(__file__).parents[2] / "derivations"


@pytest.mark.parametrize("name", ["linear", "softmax", "meanfield", "thresholds", "tokens"])
def test_runs(name, capsys):
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.startswith("# ")
    assert "Final formulas" in printed


def test_onset():
    onset = runpy.run_path(str(FOLDER / "linear.py"))["onset"]
    assert onset("tree", 16, 4) == pytest.approx(73.5694241, rel=1e-9)
    assert onset("map", 16, 4) == pytest.approx(63.5511425, rel=1e-9)


def test_two_densities():
    probabilities = runpy.run_path(str(FOLDER / "softmax.py"))["probabilities"]
    in_h, in_a_G = probabilities((0.1, 0.4), 8, 3, 60.0)
    assert 0.05 < in_h < 0.95
    assert in_h == pytest.approx(in_a_G, rel=1e-6)


def test_meanfield_minimum():
    """The theory note's meanfield column, from the printed expression alone."""
    order_parameters = runpy.run_path(str(FOLDER / "meanfield.py"))["order_parameters"]
    assert order_parameters(16, 4, 300) == pytest.approx((0.245, 0.031), abs=1e-3)


def test_softmax_threshold_and_its_limit():
    softmax_threshold = runpy.run_path(str(FOLDER / "thresholds.py"))["softmax_threshold"]
    closed, limit = softmax_threshold(10**1000, 32)
    assert limit == pytest.approx(32 / 31 / 4)
    assert closed == pytest.approx(limit, rel=0.01)


def test_onset_for_zipf():
    onset = runpy.run_path(str(FOLDER / "tokens.py"))["onset"]
    assert onset(16, 4, 0.0) == pytest.approx(73.5694241, rel=1e-9)
    setting = Setting(L=16, V=4, tokens=zipf(4, 1.0))
    (found,) = find_phases(landscape("linear", setting)).transitions
    assert found.control == pytest.approx(onset(16, 4, 1.0), rel=1e-9)
