"""The derivations to read run, and their closing numbers are right."""

import runpy
from pathlib import Path

import pytest

from phasetheory.copytask import Setting, landscape, zipf
from phasetheory.landscape import find_phases

FOLDER = Path(__file__).parents[2] / "derivations"


NAMES = [path.stem for path in sorted(FOLDER.glob("*.py"))]


@pytest.mark.parametrize("name", NAMES)
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


def test_rows_of_softmax_attention():
    """The note's meanfield column; the draws leave about 1 %."""
    weight = runpy.run_path(str(FOLDER / "softmax_meanfield.py"))["weight"]
    assert weight(16, 4, 500) == pytest.approx(0.4553, rel=0.01)
    assert weight(16, 4, 1000) == pytest.approx(0.5567, rel=0.01)


def test_pooling_at_a_finite_head_dimension():
    narrative = runpy.run_path(str(FOLDER / "heads.py"))
    found, closed = narrative["pooling"](16, 4, 16)
    setting = Setting(L=16, V=4, head_dimension=16)
    exact = find_phases(landscape("linear", setting, "map", (100.0, 300.0))).transitions[0]
    assert found == pytest.approx(exact.control, rel=1e-7)
    assert closed == pytest.approx(narrative["pooling"](1024, 4, 16)[1] / 16, rel=1e-9)
    assert narrative["pooling"](4096, 4, 64)[0] == pytest.approx(
        narrative["pooling"](4096, 4, 64)[1], rel=0.01
    )
    descended, nuclear = narrative["cheapest"](6, 4)
    assert descended == pytest.approx(nuclear, rel=1e-6)


def test_threshold_of_sparse_targets():
    narrative = runpy.run_path(str(FOLDER / "sparse.py"))
    for ones, expected in ((1, 28682), (10, 17314)):
        assert narrative["threshold"](1000, 32, ones) == pytest.approx(expected, rel=1e-4)
        assert narrative["closed_form"](1000, 32, ones) == pytest.approx(expected, rel=0.08)
