"""Actions from TOML files: what is read, and how each mistake is answered."""

import pytest

from phasetheory.errors import InputError
from phasetheory.landscape.own import load_landscape

GOOD = """
[action]
expression = "(T - 1)*x**2/2 + x**4/4 - h*x"
variables = ["x"]
control = "T"
[action.parameters]
h = 0.1
[action.bounds]
x = [-3, 3]
[control]
range = [0.2, 2.0]
scale = "linear"
"""


def load(tmp_path, text, **options):
    path = tmp_path / "action.toml"
    path.write_text(text)
    return load_landscape(path, **options)


def test_good_file(tmp_path):
    landscape = load(tmp_path, GOOD)
    assert landscape.variables == ("x",)
    assert landscape.parameters == {"h": 0.1}
    assert landscape.control_range == (0.2, 2.0)
    assert float(landscape.action([2.0], 0.5, [0.1])) == pytest.approx(-0.25 * 4 + 4 - 0.2)
    assert load(tmp_path, GOOD, control_range=(0.5, 1.5)).control_range == (0.5, 1.5)
    assert load(tmp_path, GOOD.split("[control]")[0], control_range=(0.5, 1.5))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("h*x", "g*x", "unknown name 'g'"),
        ("h*x", "__import__('os')", "unknown function"),
        ("h*x", "x.real", "only numbers"),
        ("h*x", "foo(x)", "unknown function 'foo'"),
        ("h*x", "h*x +", "not a formula"),
        ("h*x", "h", "x"),
        ('expression = "(T - 1)*x**2/2 + x**4/4 - h*x"', "", "action.expression is missing"),
        ('variables = ["x"]', "variables = []", "at least one variable"),
        ('variables = ["x"]', 'variables = ["x", "x"]', "declared twice"),
        ('variables = ["x"]', 'variables = ["x", "2y"]', "cannot name"),
        ('variables = ["x"]', 'variables = "x"', "must be a list"),
        ('variables = ["x"]', "variables = [1]", "names in quotes"),
        ('control = "T"', 'control = "x"', "declared twice"),
        ('control = "T"', "control = 3", "must be a text"),
        ("x = [-3, 3]", "x = [3, -3]", "reversed"),
        ("x = [-3, 3]", "x = [-3]", "two numbers"),
        ("x = [-3, 3]", "y = [-3, 3]", "no bounds are given for the variable 'x'"),
        ("x = [-3, 3]", "x = [-3, 3]\ny = [0, 1]", "no variable"),
        ("x = [-3, 3]", "x = [-inf, 3]", "finite"),
        ("h = 0.1", "h = nan", "finite"),
        ("h = 0.1", "h = true", "finite number"),
        ("range = [0.2, 2.0]", "range = [2.0, 0.2]", "reversed"),
        ("range = [0.2, 2.0]", "range = [0.2, inf]", "finite"),
        ("range = [0.2, 2.0]", "", "control.range is missing"),
        ("range = [0.2, 2.0]", "range = [0, 2.0]\nsteps = 3", "unknown entry control.steps"),
        ('scale = "linear"', 'scale = "cubic"', "'linear' or 'log'"),
        ('range = [0.2, 2.0]\nscale = "linear"', 'range = [0, 2]\nscale = "log"', "above 0"),
        ("[control]", "[contrl]", "unknown entry contrl"),
        ("[action]", "[action", "not valid TOML"),
    ],
)
def test_mistakes(tmp_path, old, new, says):
    assert old in GOOD
    if new == "h":  # an action that does not depend on its variable at all
        text = GOOD.replace("(T - 1)*x**2/2 + x**4/4 - h*x", "T + h")
    else:
        text = GOOD.replace(old, new)
    with pytest.raises(InputError) as error:
        load(tmp_path, text)
    assert says in str(error.value)
    assert "action.toml" in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        load_landscape(tmp_path / "missing.toml")
    with pytest.raises(InputError, match="cannot read"):
        load_landscape(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        load_landscape(tmp_path / "binary.toml")
