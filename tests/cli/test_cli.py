"""The command line as a user meets it: tables, files, and one sentence for each mistake."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from phasetheory.cli import run
from phasetheory.cli.phases_output import schema

OWN = """
[action]
expression = "(T - 1)*x**2/2 - x**4/4 + x**6/6"
variables = ["x"]
control = "T"
[action.bounds]
x = [-3, 3]
[control]
range = [0.5, 2.0]
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return path


def test_own_action_to_table_figure_and_json(own, tmp_path, capsys):
    out, file = tmp_path / "out", tmp_path / "result.json"
    assert run(["phases", str(own), "--at", "0.8,1.2", "--json", str(file), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "first" in text and "1.1875" in text and "metastable" in text
    document = json.loads(file.read_text())
    jsonschema.validate(document, schema())
    assert document == json.loads((out / "phases.json").read_text())
    assert (out / "phases.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "phases.pdf").read_bytes().startswith(b"%PDF")
    assert not [p for p in out.iterdir() if p.name.startswith(".")]
    (transition,) = document["transitions"]
    assert transition["order"] == "first"
    assert transition["control"] == pytest.approx(1.1875, rel=1e-12)
    assert transition["from"]["x"] == pytest.approx(0.75**0.5)
    assert transition["to"]["x"] == pytest.approx(0, abs=1e-9)
    assert transition["spinodals"] == pytest.approx([1.0, 1.25])
    low, high = document["equilibrium"]
    assert low["order_parameters"]["x"] > 1 and not low["metastable"]
    assert high["order_parameters"]["x"] == pytest.approx(0, abs=1e-9)
    assert len(high["metastable"]) == 1


def test_range_replaces_that_of_the_file(own, tmp_path, capsys):
    file = tmp_path / "result.json"
    assert run(["phases", str(own), "--range", "1.3:2", "--json", str(file)]) == 0
    assert "no transition" in capsys.readouterr().out
    document = json.loads(file.read_text())
    jsonschema.validate(document, schema())
    assert document["control_range"] == [1.3, 2.0]
    assert document["transitions"] == []


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_copy_task(attention, tmp_path, capsys):
    """The main job at the sizes of the theory note."""
    file, size = tmp_path / "result.json", {"linear": "16", "softmax": "64"}[attention]
    assert run(["phases", attention, "-L", size, "-V", "4", "--json", str(file)]) == 0
    document = json.loads(file.read_text())
    jsonschema.validate(document, schema())
    (transition,) = document["transitions"]
    expected = {"linear": ("second", 73.5694241), "softmax": ("first", 873.1972777)}
    assert transition["order"] == expected[attention][0]
    assert transition["control"] == pytest.approx(expected[attention][1], rel=1e-8)
    assert document["parameters"]["L"] == int(size)


def test_token_probabilities(tmp_path, capsys):
    """A file of counts gives V; its probabilities are in the document, and a V beside it agrees."""
    counts, file = tmp_path / "counts.csv", tmp_path / "result.json"
    counts.write_text("# symbol,count\na,4\nb,2\nc,1\nd,1\n")
    arguments = ["phases", "linear", "-L", "16", "--tokens", str(counts)]
    assert run([*arguments, "--json", str(file)]) == 0
    assert "effectively 2.909 symbols" in capsys.readouterr().out
    document = json.loads(file.read_text())
    jsonschema.validate(document, schema())
    assert document["tokens"] == [0.5, 0.25, 0.125, 0.125]
    assert document["parameters"]["V"] == 4
    assert [t["order"] for t in document["transitions"]] == ["second"]
    assert run([*arguments, "-V", "5"]) == 2
    assert "V is 5" in capsys.readouterr().err
    counts.write_text("4\nmany\n")
    assert run(arguments) == 2
    assert "counts.csv, line 2: a count is a number, not 'many'" in capsys.readouterr().err


BAD = [
    (["phases"], "missing argument"),
    (["phases", "missing.toml"], "no file"),
    (["phases", "linear", "-L", "2.5"], "'2.5' is not a valid integer"),
    (["phases", "linear", "-V", "x"], "'x' is not a valid integer"),
    (["phases", "linear", "-L", "1"], "l must be at least 2"),
    (["phases", "softmax", "-V", "1"], "v must be at least 2"),
    (["phases", "softmax", "-V", "-3"], "v must be at least 2"),
    (["phases", "softmax", "--var-g", "-1"], "var_g must be a positive number"),
    (["phases", "softmax", "--var-w", "0"], "var_w must be a positive number"),
    (["phases", "softmax", "--kappa", "nan"], "kappa must be a positive number"),
    (["phases", "softmax", "--kappa", "inf"], "kappa must be a positive number"),
    (["phases", "linear", "--level", "loop"], "tree"),
    (["phases", "linear", "--tokens", "zipf:x"], "takes a number, not 'x'"),
    (["phases", "linear", "--tokens", "zipf:"], "takes a number, not ''"),
    (["phases", "linear", "--tokens", "zipf:-1"], "a number from 0 up"),
    (["phases", "softmax", "--tokens", "zipf:1", "-V", "1"], "from 2 to 10^7 symbols"),
    (["phases", "softmax", "--tokens", "missing.txt"], "cannot read missing.txt"),
    (["phases", "softmax", "--tokens", "/"], "cannot read /"),
    (["phases", "missing.toml", "--tokens", "uniform"], "--tokens belongs to linear and softmax"),
    (["phases", "linear", "--range", "10"], "lo:hi"),
    (["phases", "linear", "--range", "10:1"], "reversed"),
    (["phases", "linear", "--range", "1:1"], "reversed"),
    (["phases", "linear", "--range", "1:inf"], "finite"),
    (["phases", "linear", "--range", "a:b"], "must be a number"),
    (["phases", "linear", "--range", "-5:10"], "above 0"),
    (["phases", "linear", "--range", "10:100", "--at", "5"], "outside the range"),
    (["phases", "linear", "--at", "5,x"], "must be a number"),
    (["phases", "linear", "--at", ","], "at least one number"),
    (["phases", "linear", "--nonsense"], "no such option"),
    (["phases", "linear", "extra"], "unexpected extra argument"),
    (["phases", "linear", "--json", "/no/such/folder/x.json"], "cannot write"),
    (["phases", "linear", "--json", "/"], "it is a folder"),
    (["phases", "linear", "--out", "/dev/null/x"], "cannot make the folder"),
    (["phases", "linear", "--out", "/proc/phasetheory"], "cannot make the folder"),
    (["latex", "cubic"], "'linear'"),
    (["latex", "linear", "--out", "/no/such/folder/x.tex"], "cannot write"),
    (["nonsense"], "no such command"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=lambda value: " ".join(value)[:40])
def test_bad_input_gives_one_sentence(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("phasetheory: ")
    assert says in captured.err.lower()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("x**6/6", "y", "unknown name 'y'"),
        ("x**6/6", "__import__('os').system('true')", "only numbers"),
        ("x**6/6", "open(x)", "unknown function 'open'"),
        ("x**6/6", "x.real", "only numbers"),
        ("x**6/6", "x**3*100", "edge of its bounds"),
        ("x**6/6", "x**6/6 + sqrt(x - 2.5)", "not finite"),
        ("[-3, 3]", "[3, -3]", "reversed"),
        ("[0.5, 2.0]", "[2.0, 0.5]", "reversed"),
        ("[0.5, 2.0]", "[0.5, nan]", "finite"),
        ("[action.bounds]", "[action.bounds", "not valid toml"),
    ],
)
def test_bad_action_leaves_nothing_behind(old, new, says, own, tmp_path, capsys):
    own.write_text(OWN.replace(old, new))
    out, file = tmp_path / "out", tmp_path / "result.json"
    status = run(["phases", str(own), "--json", str(file), "--out", str(out)])
    captured = capsys.readouterr()
    assert status == 2
    assert captured.err.count("\n") == 1 and "Traceback" not in captured.err
    assert says in captured.err.lower()
    assert not out.exists() and not file.exists()


def test_setting_options_belong_to_attention(own, capsys):
    assert run(["phases", str(own), "-L", "4"]) == 2
    assert "-L belongs to linear and softmax" in capsys.readouterr().err


def test_out_keeps_a_folder_that_was_there(own, tmp_path, capsys):
    folder = tmp_path / "mine"
    folder.mkdir()
    own.write_text(OWN.replace("x**6/6", "x**3*100"))
    assert run(["phases", str(own), "--out", str(folder)]) == 2
    assert folder.is_dir() and list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "attention",
    [
        "linear",
        "linear-meanfield",
        "softmax",
        "softmax-meanfield",
        "sparse",
        "heads",
        "tokens",
        "thresholds",
    ],
)
def test_latex_and_markdown(attention, tmp_path, capsys):
    assert run(["latex", attention]) == 0
    printed = capsys.readouterr().out
    assert run(["latex", attention, "--out", str(tmp_path / "a.tex")]) == 0
    assert (tmp_path / "a.tex").read_text().strip() == printed.strip()
    assert r"\end{document}" in printed
    assert run(["latex", attention, "--out", str(tmp_path / "a.md")]) == 0
    assert (tmp_path / "a.md").read_text().startswith("# ")
    capsys.readouterr()
    assert run(["latex", attention, "--markdown"]) == 0
    assert capsys.readouterr().out.strip() == (tmp_path / "a.md").read_text().strip()


def test_help_does_not_import_what_computes():
    """--help answers at once: neither JAX nor SymPy nor matplotlib is imported for it."""
    code = (
        "import sys; from phasetheory.cli import run; run(['phases', '--help']); "
        "sys.exit(any(m in sys.modules for m in ('jax', 'sympy', 'matplotlib', 'scipy')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "--range" in result.stdout


def test_installed_command_and_exit_status(tmp_path):
    command = Path(sys.executable).parent / "phasetheory"
    result = subprocess.run(
        [command, "phases", "missing.toml"], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    version = subprocess.run([command, "--version"], capture_output=True, text=True)
    assert version.returncode == 0 and "0.1.0" in version.stdout


@pytest.mark.parametrize(
    "entry",
    [
        "x = [-3, 1" + "0" * 400 + "]",
        "x = [-3, 1" + "0" * 5000 + "]",
        "x = " + "[" * 2000,
        "x = [-1e308, 1e308]",
    ],
    ids=["long", "longer", "deep", "huge"],
)
def test_hostile_numbers(entry, own, capsys):
    own.write_text(OWN.replace("x = [-3, 3]", entry))
    assert run(["phases", str(own)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and len(err) < 400


def test_names_are_printed_as_they_are(tmp_path, capsys):
    """Markup, mathematics and letters outside the font in names harm neither table nor figure."""
    text = OWN.replace("x**", "a_b_c**").replace('["x"]', '["a_b_c"]').replace("x = [", "a_b_c = [")
    text = text.replace("[action]", '[action]\nname = "[/b] $x_ \u65e5 :smile:"')
    (tmp_path / "[b].toml").write_text(text)
    arguments = ["phases", str(tmp_path / "[b].toml"), "--out", str(tmp_path / "[out]")]
    assert run(arguments) == 0
    captured = capsys.readouterr()
    assert "[/b] $x_ \u65e5 :smile:" in captured.out and "[out]" in captured.out
    assert captured.err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device to write to")
def test_full_disk_and_narrow_encoding(own):
    command = Path(sys.executable).parent / "phasetheory"
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([command, "latex", "linear"], stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 2
    assert result.stderr.decode().count("\n") == 1 and b"no space left" in result.stderr
    result = subprocess.run(
        [command, "phases", str(own)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert result.returncode == 0 and b"1.1875" in result.stdout


def test_long_paths(own, capsys):
    for option in ("--json", "--out"):
        assert run(["phases", str(own), option, "a" * 300]) == 2
        assert "too long" in capsys.readouterr().err


def test_closed_pipe_is_no_failure(own):
    command = Path(sys.executable).parent / "phasetheory"
    for arguments in (["phases", str(own)], ["latex", "linear"]):
        with subprocess.Popen(
            [command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait() == 0


def test_links_and_devices_stay(own, tmp_path, capsys):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    assert run(["phases", str(own), "--json", str(link)]) == 0
    assert link.is_symlink() and json.loads(real.read_text())["schema"] == 1
    assert run(["phases", str(own), "--json", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()
