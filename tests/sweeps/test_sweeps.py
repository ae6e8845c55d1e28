"""Plans, stores and runners; what is killed goes on and comes to the same store."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from phasetheory.errors import InputError
from phasetheory.sweeps import Plan, Result, Status, load, run
from phasetheory.sweeps import store as storage

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def toys_are_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", str(HERE) + os.pathsep + os.environ.get("PYTHONPATH", ""))


def plan(x=(1.0, 2.0, 3.0), y=(0.5, 1.5), sleep=0.0, batch=2, c=0.25):
    return Plan(
        (("x", tuple(x)), ("y", tuple(y))),
        "toys:product",
        (Result("z", "their product (1)"), Result("n", "x", "int64")),
        {"c": c, "sleep": sleep},
        batch,
    )


def arrays(path):
    found = load(path)
    return {name: found[name].values for name in ("z", "n", "status")}


def same(one, other):
    return all(np.array_equal(a, arrays(other)[name]) for name, a in arrays(one).items())


def test_a_sweep_gives_labelled_arrays(tmp_path):
    told = []
    run(plan(), tmp_path / "s", progress=lambda *numbers: told.append(numbers))
    found = load(tmp_path / "s")
    assert found["z"].dims == ("x", "y")
    assert found["z"].sel(x=3.0, y=1.5) == 4.75
    assert (found["status"] == Status.done).all()
    assert found["n"].dtype == np.int64
    assert found.attrs["versions"]["zarr"]
    assert found["z"].attrs["description"] == "their product (1)"
    assert told[0] == (0, 6) and told[-1] == (6, 6)
    raw = xr.open_zarr(tmp_path / "s", consolidated=False)
    assert raw["z"].dims == ("point",)


def test_finished_points_are_not_done_again(tmp_path, monkeypatch):
    import toys

    calls = []
    monkeypatch.setattr(
        toys, "product", lambda p, c, f=toys.product: (calls.append(p["x"]), f(p, c))[1]
    )

    def stop(done, total):
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(plan(), tmp_path / "s", progress=stop)
    assert len(calls) == 1
    run(plan(), tmp_path / "s")
    assert len(calls) == 3
    run(plan(), tmp_path / "s")
    assert len(calls) == 3
    run(plan(), tmp_path / "undisturbed")
    assert same(tmp_path / "s", tmp_path / "undisturbed")


def test_a_sweep_is_extended(tmp_path):
    run(plan(x=(1.0, 3.0)), tmp_path / "s")
    before = load(tmp_path / "s")
    larger = plan(x=(0.0, 1.0, 2.0, 3.0), y=(0.5, 1.0, 1.5), batch=5)
    told = []
    run(larger, tmp_path / "s", progress=lambda done, total: told.append((done, total)))
    assert told[0] == (4, 12)
    after = load(tmp_path / "s")
    assert after["z"].sel(x=before.x, y=before.y).equals(before["z"])
    run(larger, tmp_path / "whole")
    assert same(tmp_path / "s", tmp_path / "whole")


def test_failures_are_values(tmp_path):
    axes = (("x", (1.0, 2.0, 3.0, 4.0, 5.0)),)
    troubled = Plan(axes, "toys:trouble", (Result("z"),), batch=5)
    run(troubled, tmp_path / "s")
    found = load(tmp_path / "s")
    assert found["status"].values.tolist() == [1, 4, 4, 2, 1]
    assert "two is not possible" in found.attrs["failures"]["1"]
    assert found.attrs["failures"]["2"] == "z is not a number"
    run(replace(troubled, axes=(("x", (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),)), tmp_path / "s")
    assert "two is not possible" in load(tmp_path / "s").attrs["failures"]["2"]


def test_a_store_of_another_plan_is_refused(tmp_path):
    run(plan(), tmp_path / "s")
    with pytest.raises(InputError, match="another configuration"):
        run(plan(c=1.0), tmp_path / "s")
    with pytest.raises(InputError, match="also holds x = 1"):
        run(plan(x=(2.0, 3.0)), tmp_path / "s")
    with pytest.raises(InputError, match="another axes"):
        run(replace(plan(), axes=(("x", (1.0,)), ("w", (1.0,)))), tmp_path / "s")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="is not the store of a sweep"):
        run(plan(), tmp_path / "folder")
    with pytest.raises(InputError, match="there is no store"):
        load(tmp_path / "nothing")


def test_two_sweeps_of_one_store_are_refused(tmp_path):
    with (
        storage.open_store(tmp_path / "s", plan()),
        pytest.raises(InputError, match=f"process {os.getpid()} on .* writes to"),
    ):
        run(plan(), tmp_path / "s")
    run(plan(), tmp_path / "s")


def test_a_full_disk_keeps_what_is_done(tmp_path, monkeypatch):
    write, calls = storage.Store.array, []

    class Full:
        def __init__(self, array):
            self.array = array

        def __getitem__(self, place):
            return self.array[place]

        def __setitem__(self, place, values):
            calls.append(place)
            if len(calls) > 4:  # in the middle of the second batch
                raise OSError(errno.ENOSPC, "No space left on device")
            self.array[place] = values

    monkeypatch.setattr(storage.Store, "array", lambda self, name: Full(write(self, name)))
    with pytest.raises(InputError, match="no space left"):
        run(plan(), tmp_path / "s")
    monkeypatch.undo()
    left = load(tmp_path / "s")
    assert left["status"].values.ravel().tolist() == [1, 1, 0, 0, 0, 0]
    # the last four are not known, and do not look as if they were
    assert np.isnan(left["z"].values.ravel()[4:]).all()


def test_results_come_before_their_status(tmp_path, monkeypatch):
    names = []
    array = storage.Store.array
    monkeypatch.setattr(
        storage.Store, "array", lambda self, name: (names.append(name), array(self, name))[1]
    )
    run(plan(batch=6), tmp_path / "s")
    assert names[-3:] == ["z", "n", "status"]


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(1, 7),
)
def test_batches_cover_the_grid_once(sizes, batch):
    axes = tuple((f"x{i}", tuple(float(v) for v in range(n))) for i, n in enumerate(sizes))
    grid = Plan(axes, "toys:product", (Result("z"),), batch=batch)
    indices = np.concatenate([grid.indices(b) for b in range(grid.batches)])
    assert indices.tolist() == list(range(grid.size))
    points = grid.points(indices)
    assert len(set(zip(*(points[name] for name, _ in axes), strict=True))) == grid.size


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ({"axes": ()}, "at least one axis"),
        ({"axes": (("x", ()),)}, "no values"),
        ({"axes": (("x", (1.0, 1.0)),)}, "twice"),
        ({"axes": (("x", (float("nan"),)),)}, "not finite"),
        ({"axes": (("z", (1.0,)),)}, "distinct names"),
        ({"batch": 0}, "at least 1 point"),
        ({"configuration": {"c": object()}}, "JSON"),
    ],
)
def test_bad_plan(wrong, sentence):
    with pytest.raises(InputError, match=sentence):
        replace(plan(), **wrong)


def test_unknown_function(tmp_path):
    with pytest.raises(InputError, match="no function 'toys:nothing'"):
        run(replace(plan(), function="toys:nothing"), tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_an_unreachable_scheduler_is_named_within_seconds(tmp_path):
    begun = time.monotonic()
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        run(plan(), tmp_path / "s", scheduler="tcp://127.0.0.1:9")
    assert time.monotonic() - begun < 15


SCRIPT = """
import sys
from pathlib import Path
from test_sweeps import plan
from phasetheory.cli import _fail
from phasetheory.errors import InputError
from phasetheory.sweeps import run
if __name__ == "__main__":
    scheduler = sys.argv[2] if len(sys.argv) > 2 else None
    try:
        run(plan(x=range(1, 13), y=(0.5, 1.5), sleep=0.4), sys.argv[1], scheduler=scheduler,
            workers=0 if scheduler else 2,
            progress=lambda done, total: print(done, flush=True))
    except InputError as error:
        sys.exit(_fail(str(error)))
"""


def start(arguments, **options):
    return subprocess.Popen(
        [sys.executable, *arguments], text=True, stdout=subprocess.PIPE, cwd=HERE, **options
    )


def wait_for(process, points):
    for line in process.stdout:
        if int(line) >= points:
            return
    raise AssertionError("the sweep ended early")


@pytest.fixture
def script(tmp_path):
    file = tmp_path / "client.py"
    file.write_text(textwrap.dedent(SCRIPT))
    return str(file)


@pytest.fixture
def undisturbed(tmp_path):
    run(plan(x=range(1, 13), y=(0.5, 1.5), sleep=0.0), tmp_path / "undisturbed")
    return tmp_path / "undisturbed"


@pytest.mark.slow
def test_worker_processes_give_the_same_store(tmp_path, script, undisturbed):
    process = start([script, str(tmp_path / "s")])
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert same(tmp_path / "s", undisturbed)


@pytest.mark.slow
def test_a_killed_client_goes_on(tmp_path, script, undisturbed):
    process = start([script, str(tmp_path / "s")])
    wait_for(process, 6)
    process.kill()
    process.communicate()
    done = int((load(tmp_path / "s")["status"] == Status.done).sum())
    assert 6 <= done < 24
    process = start([script, str(tmp_path / "s")])
    output, _ = process.communicate(timeout=120)
    assert int(output.split()[0]) == done
    assert same(tmp_path / "s", undisturbed)


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and two workers in processes of their own."""
    dask = [sys.executable, "-m", "distributed.cli."]
    file = tmp_path / "scheduler.json"
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": HERE}
    name = dask[-1]

    def scheduler():
        file.unlink(missing_ok=True)
        process = subprocess.Popen(
            [*dask[:-1], name + "dask_scheduler", "--no-dashboard", "--port", "0",
             "--scheduler-file", str(file)],
            **options,
        )  # fmt: skip
        while not file.exists():
            time.sleep(0.1)
        time.sleep(0.2)
        import json

        return process, json.loads(file.read_text())["address"]

    def worker(address):
        return subprocess.Popen(
            [*dask[:-1], name + "dask_worker", address, "--nthreads", "1", "--no-dashboard",
             "--no-nanny"],
            **options,
        )  # fmt: skip

    first, address = scheduler()
    processes = [first, worker(address), worker(address)]
    yield address, processes, scheduler, worker
    for process in processes:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_a_killed_worker_is_replaced(tmp_path, script, undisturbed, cluster):
    address, processes, *_ = cluster
    process = start([script, str(tmp_path / "s"), address])
    wait_for(process, 4)
    processes[1].kill()
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert same(tmp_path / "s", undisturbed)


@pytest.mark.slow
def test_a_killed_scheduler_ends_the_sweep_with_a_sentence(tmp_path, script, undisturbed, cluster):
    address, processes, scheduler, worker = cluster
    process = start([script, str(tmp_path / "s"), address], stderr=subprocess.PIPE)
    wait_for(process, 4)
    processes[0].kill()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "was lost" in errors
    assert "Traceback" not in errors, errors
    assert int((load(tmp_path / "s")["status"] == Status.done).sum()) >= 4
    again, address = scheduler()
    processes += [again, worker(address), worker(address)]
    process = start([script, str(tmp_path / "s"), address])
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert same(tmp_path / "s", undisturbed)
