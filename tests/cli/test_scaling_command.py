"""``phasetheory scaling`` as a user meets it."""

import json
import subprocess
import sys

import jsonschema
import pytest

from phasetheory.cli import run
from phasetheory.cli.scaling_output import schema


def test_table_json_and_figures(tmp_path, capsys):
    out, file = tmp_path / "out", tmp_path / "result.json"
    arguments = ["scaling", "softmax", "--over", "L", "--range", "16:1024", "--points", "9"]
    assert run([*arguments, "--json", str(file), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "crossover" in text and "first" in text and "naive" in text
    document = json.loads(file.read_text())
    jsonschema.validate(document, schema())
    assert document == json.loads((out / "scaling.json").read_text())
    for stem in ("scaling", "regimes"):
        assert (out / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert (out / f"{stem}.pdf").read_bytes().startswith(b"%PDF")
    (curve,) = document["curves"]
    assert [p["value"] for p in curve["points"]][::8] == [16, 1024]
    assert curve["points"][0]["spinodals"] == [None, None]
    assert "model" in curve["fits"][0]["method"]


def test_points_not_found_are_told(tmp_path, capsys):
    """At small L copying of linear attention has no crossover of its own: exit status 1."""
    file = tmp_path / "result.json"
    arguments = ["scaling", "linear", "--over", "L", "--range", "16:256", "--points", "9"]
    assert run([*arguments, "--json", str(file)]) == 1
    assert "incomplete: L = 16: no copying found" in capsys.readouterr().out.replace("\n", " ")
    document = json.loads(file.read_text())
    jsonschema.validate(document, schema())
    assert document["status"] == "incomplete" and document["problems"]
    onset, copying = document["curves"]
    assert all(p["order"] == "second" for p in onset["points"])
    assert copying["points"][0]["P"] is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["softmax", "--over", "P", "--range", "1:2"], "'p' is not one of"),
        (["softmax", "--over", "L", "--range", "100:10"], "reversed"),
        (["softmax", "--over", "L", "--range", "1:100"], "at least 2"),
        (["softmax", "--over", "L", "--range", "-4:100"], "0 < lo"),
        (["softmax", "--over", "var_g", "--range", "0:100"], "0 < lo"),
        (["softmax", "--over", "L", "--range", "2:100", "--points", "2"], "at least 6 points"),
        (["softmax", "--over", "L", "--range", "2:3"], "whole numbers"),
        (["softmax", "--over", "L", "--range", "2:100", "--level", "loop"], "'loop'"),
        (["softmax", "--over", "L", "--range", "2:100", "-V", "1"], "v must be at least 2"),
        (["softmax", "--over", "L"], "missing option '--range'"),
        (["cubic", "--over", "L", "--range", "2:100"], "'cubic'"),
    ],
    ids=lambda value: " ".join(value)[:60],
)
def test_bad_input_gives_one_sentence(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["scaling", *arguments, "--json", "a.json", "--out", "figures"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and captured.err.startswith("phasetheory: ")
    assert says in captured.err.lower()
    assert list(tmp_path.iterdir()) == []


def test_help_does_not_import_what_computes():
    code = (
        "import sys; from phasetheory.cli import run; run(['scaling', '--help']); "
        "sys.exit(any(m in sys.modules for m in ('jax', 'sympy', 'matplotlib', 'scipy', 'numpy')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
