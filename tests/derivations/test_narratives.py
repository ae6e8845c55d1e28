"""The derivations to read run, and their closing numbers are right."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "derivations"


@pytest.mark.parametrize("name", ["linear", "softmax"])
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
