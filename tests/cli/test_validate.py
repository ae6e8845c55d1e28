"""``phasetheory validate`` as a user meets it: verdicts, files, interrupts, kills, mistakes."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest

from phasetheory.agreement import measured, theory
from phasetheory.cli import run
from phasetheory.cli.validate_output import schema

COMMAND = Path(sys.executable).parent / "phasetheory"
SMALL = ["validate", "linear", "-L", "8", "-V", "3", "--P", "10,60"]
QUICK = ["--chains", "4", "--warmup", "50", "--draws", "50", "--datasets", "2"]


@pytest.fixture
def tree(monkeypatch):
    """One level of theory only, for speed."""
    monkeypatch.setattr(theory, "LEVELS", ("tree",))


@pytest.fixture
def no_theory(monkeypatch):
    monkeypatch.setattr(theory, "LEVELS", ())


def without_times(path):
    document = json.loads(path.read_text())
    jsonschema.validate(document, schema())
    del document["timing"]
    return document


class Page(HTMLParser):
    """Tags, and every address that a page refers to."""

    def __init__(self):
        super().__init__()
        self.tags, self.addresses = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href") and value]


def test_table_report_figure_and_json(tree, tmp_path, capsys):
    out, file = tmp_path / "out", tmp_path / "result.json"
    arguments = [*SMALL, *QUICK, "--json", str(file), "--out", str(out)]
    status = run(arguments)
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "verdict" in captured.out and "± error" in captured.out
    document = without_times(file)
    assert document == without_times(out / "validate.json")
    failed = {"disagrees", "not converged"} & {row["verdict"] for row in document["rows"]}
    assert status == bool(failed)
    assert (out / "validate.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "validate.pdf").read_bytes().startswith(b"%PDF")
    text = (out / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert page.addresses and all(a.startswith("data:image/png") for a in page.addresses)
    assert "script" not in page.tags and "width=device-width" in text
    for wanted in (document["command"], "R-hat", "Convergence", *map(str, (10, 60))):
        assert wanted in text
    assert sorted(p.name for p in out.iterdir()) == [
        "checkpoints",
        "report.html",
        "validate.json",
        "validate.pdf",
        "validate.png",
    ]
    assert document["compared_level"] == "tree"
    alpha = document["rows"][0]["comparisons"][0]
    assert alpha["order_parameter"] == "alpha"
    assert alpha["difference"] == pytest.approx(alpha["measured"] - alpha["theory"])


def test_adam_lists_what_it_drops(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(theory, "LEVELS", ("map",))
    file = tmp_path / "a.json"
    arguments = [*SMALL, "--method", "adam", "--chains", "4", "--datasets", "1"]
    run([*arguments, "--json", str(file)])
    document = without_times(file)
    assert document["compared_level"] == "map"
    assert [row["start"] for row in document["rows"]] == ["lowest", "lowest"]
    assert document["rows"][0]["values"]["alpha"]["rhat"] is None
    assert all(d["above"] is None or d["above"] > 0 for d in document["dropped"])
    capsys.readouterr()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--method", "langevin", "--chains", "8"], "bias"),
        (["--no-wrap"], "ring"),
        pytest.param(["--tokens", "zipf:1"], "effectively", marks=pytest.mark.slow),
        (["--ones", "2"], "ones = 2"),
        (["-N", "4"], "finite head dimension"),
        (["--hysteresis"], "down"),
        (["--starts", "copy"], "copy"),
        (["--budget", "0.000001"], "budget spent after 0 of 50 draws"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_variants(more, says, tree, tmp_path, capsys):
    file = tmp_path / "a.json"
    assert run([*SMALL, *QUICK, *more, "--json", str(file)]) in (0, 1)
    assert says in " ".join(capsys.readouterr().out.split())
    document = without_times(file)
    if "--budget" in more:
        assert {row["verdict"] for row in document["rows"]} == {"not converged"}
    if "-N" in more:
        assert document["compared_level"] is None


BAD = [
    (["validate"], "missing argument"),
    (["validate", "linear"], "missing option '--p'"),
    (["validate", "cubic", "--P", "10"], "'cubic'"),
    (["validate", "linear", "--P", "ten"], "must be a number, not 'ten'"),
    (["validate", "linear", "--P", "10.5"], "must be a whole number, not 10.5"),
    (["validate", "linear", "--P", ","], "at least one number"),
    (["validate", "linear", "--P", "0,10"], "not 0"),
    (["validate", "linear", "--P", "-5"], "not -5"),
    (["validate", "linear", "--P", "inf"], "finite"),
    (["validate", "linear", "--P", "1e12"], "10^8"),
    (["validate", "linear", "--P", "1e300"], "10^8"),
    (["validate", "linear", "--P", "10", "--method", "gibbs"], "'gibbs' is not one of"),
    (["validate", "linear", "--P", "10", "--chains", "5"], "5 chains cannot be shared evenly"),
    (["validate", "linear", "--P", "10", "--chains", "0"], "shared evenly"),
    (["validate", "linear", "--P", "10", "--chains", "4", "--method", "sgld"], "at least 4, not 2"),
    (["validate", "linear", "--P", "10", "--draws", "75"], "multiple of 50"),
    (["validate", "linear", "--P", "10", "--warmup", "-50"], "multiple of 50"),
    (["validate", "linear", "--P", "10", "--datasets", "0"], "datasets must be from 1"),
    (["validate", "linear", "--P", "10", "--seed", "-1"], "seed must be 0 or above"),
    (["validate", "linear", "--P", "10", "--starts", "hot"], "not 'hot'"),
    (["validate", "linear", "--P", "10", "--starts", ","], "starts"),
    (["validate", "linear", "--P", "10", "--starts", "copy,copy"], "once"),
    (["validate", "linear", "--P", "10", "--starts", "copy", "--hysteresis"], "its own starts"),
    (["validate", "linear", "--P", "10", "--hysteresis", "--method", "adam"], "needs a sampler"),
    (["validate", "linear", "--P", "10", "--method", "adam", "--draws", "50"], "belongs to the"),
    (["validate", "linear", "--P", "10", "--budget", "-1"], "--budget must be a positive number"),
    (["validate", "linear", "--P", "10", "--budget", "nan"], "--budget must be a positive number"),
    (["validate", "linear", "--P", "10", "--tolerance", "0"], "--tolerance must be a positive"),
    (["validate", "linear", "--P", "10", "-L", "1"], "l must be at least 2"),
    (["validate", "linear", "--P", "10", "-L", "100000"], "gib"),
    (["validate", "linear", "--P", "10", "--var-g", "-1"], "var_g must be a positive number"),
    (["validate", "linear", "--P", "10", "--tokens", "zipf:x"], "takes a number"),
    (["validate", "linear", "--P", "10", "--ones", "0"], "ones must be at least 1"),
    (["validate", "linear", "--P", "10", "-N", "0"], "head dimension must be at least 1"),
    (["validate", "linear", "--P", "10", "--json", "/no/such/folder/x.json"], "cannot write"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=lambda value: " ".join(value)[:70])
def test_bad_input_gives_one_sentence(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    more = [] if len(arguments) < 3 or "--json" in arguments else ["--json", "a", "--out", "b"]
    assert run([*arguments, *more]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith("phasetheory: ") and says in captured.err.lower()
    assert list(tmp_path.iterdir()) == []


def test_resume_needs_a_folder(capsys):
    assert run([*SMALL, "--resume"]) == 2
    assert "--resume needs --out" in capsys.readouterr().err


def test_checkpoints_of_other_settings_and_corrupt_ones(no_theory, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = [*SMALL, *QUICK, "--out", str(out)]
    run(arguments)
    first = without_times(out / "validate.json")

    def refused(more, says):
        capsys.readouterr()
        assert run([*arguments, "--resume", *more]) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.count("\n") == 1 and says in captured.err

    refused(["--var-w", "2"], "belong to a run with other var_w")
    refused(["--method", "langevin", "--chains", "8"], "run with other method, chains")
    refused(["--seed", "3"], "run with other seed")
    refused(["--warmup", "100"], "run with other warmup")
    file = out / "checkpoints" / "P60-data1.npz"
    whole = file.read_bytes()
    for content in (b"", b"nonsense", whole[: len(whole) // 2], whole.replace(b"leaf1", b"leaf?")):
        file.write_bytes(content)
        refused([], "cannot read the checkpoint")
    (out / "checkpoints" / "run.json").write_text("{")
    refused([], "cannot read the checkpoint")
    (out / "checkpoints" / "run.json").write_text("[]")
    refused([], "cannot read the checkpoint")
    # without --resume all of it is cleared away
    assert run(arguments) in (0, 1)
    assert without_times(out / "validate.json") == first


@pytest.mark.slow
def test_resume_for_further_points_and_draws(no_theory, tmp_path):
    out = tmp_path / "out"
    arguments = [*SMALL, *QUICK, "--out", str(out)]
    more = ["--draws", "100", "--P", "10,30,60"]
    run(arguments)
    assert run([*arguments, "--resume", *more]) in (0, 1)
    extended = without_times(out / "validate.json")
    run([*arguments, *more])
    assert without_times(out / "validate.json") == extended


def test_ctrl_c_keeps_what_is_done(no_theory, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    arguments = [*SMALL, *QUICK, "--out", str(out)]
    run(arguments)
    straight = without_times(out / "validate.json")
    sample, calls = measured.sample_chains, []

    def interrupted(*positional, **named):
        calls.append(0)
        if len(calls) == 4:  # the second data set of the second P, after its first chunk

            def stop(share):
                raise KeyboardInterrupt

            named["progress"] = stop
        return sample(*positional, **named)

    monkeypatch.setattr(measured, "sample_chains", interrupted)
    capsys.readouterr()
    assert run(arguments) == 130
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "go on with --resume" in captured.err
    document = without_times(out / "validate.json")
    assert document["status"] == "interrupted"
    assert {row["P"] for row in document["rows"]} == {10}
    assert "Interrupted" in (out / "report.html").read_text()
    assert (out / "checkpoints" / "P60-data1.npz").exists()
    assert run([*arguments, "--resume"]) in (0, 1)
    assert without_times(out / "validate.json") == straight


def test_help_does_not_import_what_computes():
    code = (
        "import sys; from phasetheory.cli import run; run(['validate', '--help']); "
        "sys.exit(any(m in sys.modules for m in ('jax', 'sympy', 'matplotlib', 'jinja2')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


# with a head dimension below L - 1 no level covers softmax attention: all time is measurement
KILLED = [
    "validate",
    "softmax",
    "-L",
    "8",
    "-V",
    "3",
    "-N",
    "4",
    "--P",
    "20,60,200",
    "--hysteresis",
]


@pytest.mark.slow
def test_kills_at_any_moment(tmp_path):
    """Killed ten times at random moments, the command comes to the same numbers, bit for bit."""
    size = ["--chains", "8", "--warmup", "200", "--draws", "1000", "--datasets", "3"]
    arguments = [COMMAND, *KILLED, *size, "--out"]

    def clean(folder):
        return sorted(p.name for p in folder.rglob(".*")) == []

    begun = time.monotonic()
    done = subprocess.run([*arguments, tmp_path / "a"], capture_output=True, text=True)
    whole = time.monotonic() - begun
    assert done.returncode in (0, 1) and done.stderr == ""
    moments = random.Random(0)
    for _ in range(10):
        with subprocess.Popen(
            [*arguments, tmp_path / "b", "--resume"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            time.sleep(moments.uniform(0.02, 0.9) * whole)
            process.kill()
            assert process.stderr is not None and process.stderr.read() == ""
    done = subprocess.run([*arguments, tmp_path / "b", "--resume"], capture_output=True, text=True)
    assert done.returncode in (0, 1) and done.stderr == ""
    one, other = (without_times(tmp_path / name / "validate.json") for name in "ab")
    assert one == other
    assert clean(tmp_path / "b")


@pytest.mark.slow
def test_ctrl_c_from_a_terminal(tmp_path):
    arguments = [COMMAND, *KILLED, "--draws", "20000", "--datasets", "2", "--out", tmp_path]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not list((tmp_path / "checkpoints").glob("P20-data1-up.npz")):
            time.sleep(0.2)
            assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.fullmatch(rb"phasetheory: interrupted; .*go on with --resume\n", error)
    assert without_times(tmp_path / "validate.json")["status"] == "interrupted"
