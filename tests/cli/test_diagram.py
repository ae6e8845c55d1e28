"""``phasetheory diagram`` as a user runs it."""

import json
import math

import pytest

from phasetheory.cli import run
from phasetheory.sweeps import load

BLUME_CAPEL = """
[action]
expression = "m**2/2 - T*log(1 + 2*exp(-D/T)*cosh(m/T))"
variables = ["m"]
control = "D"
parameters = { T = 0.3 }
bounds = { m = [-2.0, 2.0] }
[control]
range = [0.2, 0.8]
"""
REGULAR = """
[action]
expression = "x*log(x) + (1-x)*log(1-x) + chi*x*(1-x) - h*x"
variables = ["x"]
control = "h"
parameters = { chi = 2.5 }
bounds = { x = [0.001, 0.999] }
[control]
range = [-0.3, 0.4]
"""


@pytest.mark.slow
def test_blume_capel(tmp_path, capsys):
    """Second-order line, tricritical point at T = 1/3, D = log(4)/3, first-order line below it."""
    file = tmp_path / "blume-capel.toml"
    file.write_text(BLUME_CAPEL)
    out = tmp_path / "out"
    assert run(["diagram", str(file), "--x", "T=0.2,0.3,0.4,0.5", "--out", str(out)]) == 0
    result = json.loads((out / "diagram.json").read_text())
    assert [p["order"] for p in result["points"]] == ["first", "first", "second", "second"]
    (end,) = result["ends"]
    assert end["kind"] == "tricritical"
    assert end["at"]["T"] == pytest.approx(1 / 3, abs=1e-6)
    assert end["control"] == pytest.approx(math.log(4) / 3, abs=1e-6)
    assert "tricritical" in capsys.readouterr().out
    page = (out / "diagram.html").read_text()
    assert "<script src=" not in page  # nothing is fetched
    # given again with a longer axis, nothing is done twice
    store = load(out / "diagram.zarr")
    assert run(["diagram", str(file), "--x", "T=0.2,0.25,0.3,0.4,0.5", "--out", str(out)]) == 0
    after = load(out / "diagram.zarr")
    assert after["control"].sel(T=store["T"]).equals(store["control"])
    assert (out / "diagram.png").stat().st_size > 10_000


def test_regular_solution_ends_at_its_critical_point(tmp_path):
    file = tmp_path / "regular.toml"
    file.write_text(REGULAR)
    found = tmp_path / "r.json"
    assert run(["diagram", str(file), "--x", "chi=1.8,2.2,2.6", "--json", str(found)]) == 0
    (end,) = json.loads(found.read_text())["ends"]
    assert end["kind"] == "critical end"
    assert end["at"]["chi"] == pytest.approx(2.0, abs=1e-6)
    assert end["control"] == pytest.approx(0.0, abs=1e-6)


def test_softmax_over_two_settings(tmp_path):
    found = tmp_path / "s.json"
    status = run(
        ["diagram", "softmax", "-V", "4", "--x", "L=16,19,64", "--y", "var_g=0.25:4:log5",
         "--json", str(found)]
    )  # fmt: skip
    assert status == 0
    result = json.loads(found.read_text())
    assert len(result["points"]) == 15
    at = {(p["L"], round(p["var_g"], 3)): p for p in result["points"]}
    assert at[64, 1.0]["control"] == pytest.approx(873.19728, rel=1e-7)
    assert at[64, 1.0]["barrier"] == pytest.approx(13.11399768, rel=1e-6)
    assert at[16, 1.0]["order"] == "crossover"
    (end,) = result["ends"]
    assert end["at"]["L"] == 19
    assert end["at"]["var_g"] == pytest.approx(0.79773128, rel=1e-7)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["softmax", "--x", "Q=1:10:log5"], "an axis is"),
        (["softmax", "--x", "L=10:1:log5"], "empty"),
        (["softmax", "--x", "L=10:20:foo5"], "LO:HI:logN"),
        (["softmax", "--x", "L"], "LO:HI:logN"),
        (["softmax", "--x", "L=0:10:log5"], "above 0"),
        (["softmax", "--x", "L=1:10:lin1"], "from 2 to 10000"),
        (["softmax", "--x", "var_g=-1,1"], "var_g must be a positive number"),
        (["softmax", "--x", "L=8,16", "--z", "V=2,3"], "--z needs --y"),
        (["softmax", "--x", "L=8,16", "--workers", "-1"], "--workers"),
        (["softmax", "--x", "L=8,16", "--y", "L=8,16"], "distinct names"),
        (["softmax", "--x", "L=8,16", "--scheduler", "tcp://127.0.0.1:9"], "no Dask scheduler"),
        (["nothing.toml", "--x", "L=8,16"], "there is no file"),
        (["nothing.toml", "--x", "L=8,16", "-V", "3"], "belongs to linear and softmax"),
    ],
)
def test_bad_input(arguments, sentence, capsys):
    assert run(["diagram", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_another_plan_in_the_same_folder(tmp_path, capsys):
    out = str(tmp_path)
    assert run(["diagram", "linear", "--x", "L=8,16", "--out", out]) == 0
    assert run(["diagram", "linear", "--x", "L=8,16", "-V", "3", "--out", out]) == 2
    assert "another configuration" in capsys.readouterr().err
