"""The store of a sweep: a Zarr group with one chunk per batch, which xarray reads.

Points lie along one dimension, so that a batch is a chunk of each array. The results of a batch are
written before its status and each chunk is replaced in one step, so that a batch whose status is
not `pending` is whole, whenever the process was killed.
"""

import errno
import fcntl
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import xarray as xr
import zarr

from phasetheory.errors import InputError
from phasetheory.sweeps.plan import Plan

VERSIONS = ("phasetheory", "jax", "jaxlib", "numpy", "xarray", "zarr")


class Status(IntEnum):
    """What is known of a point."""

    pending = 0
    done = 1
    not_found = 2
    undetermined = 3
    failed = 4


class Store:
    """An open store; made by `open_store`."""

    def __init__(self, path: Path, plan: Plan):
        self.path, self.plan = path, plan
        self.group = zarr.open_group(path, mode="r+")

    def pending(self, batch: int) -> np.ndarray:
        """Points of a batch that are not done, by their index."""
        indices = self.plan.indices(batch)
        status = np.asarray(self.array("status")[indices[0] : indices[-1] + 1])
        return indices[status == Status.pending]

    def write(self, batch: int, indices: np.ndarray, results: dict[str, np.ndarray]) -> None:
        """Record points of one batch, "status" among their results.

        Raises:
            InputError: if the store cannot be written.
        """
        everything = self.plan.indices(batch)
        place = slice(int(everything[0]), int(everything[-1]) + 1)
        inside = np.isin(everything, indices)
        with storage_errors(self.path):
            for name in (*(r.name for r in self.plan.results), "status"):
                array = self.array(name)
                values = np.asarray(array[place])
                values[inside] = results[name]
                array[place] = values

    def note(self, sentences: dict[int, str]) -> None:
        """Keep the sentences of points that failed, in the store's attributes."""
        if sentences:
            known: Any = self.group.attrs.get("failures", {})
            with storage_errors(self.path):
                self.group.attrs["failures"] = known | {str(i): s for i, s in sentences.items()}

    def array(self, name: str) -> Any:
        return self.group[name]


@contextmanager
def open_store(path: Path, plan: Plan) -> Iterator[Store]:
    """The store of a plan: a new one, or one to go on with, extended if the plan has grown.

    Raises:
        InputError: if it belongs to another plan, is in use, or cannot be read or written.
    """
    path = Path(path)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _lock(path), storage_errors(path):
        for leftover in (_aside(path, what) for what in ("new", "grown", "old")):
            if leftover.exists() and path.exists():
                shutil.rmtree(leftover)
        if _aside(path, "old").exists():  # killed between the two renames of an extension
            _aside(path, "old").rename(path)
        if not path.exists():
            _create(path, plan)
        else:
            _check(path, plan)
            if dict(_attributes(path)["axes"]) != {n: list(v) for n, v in plan.axes}:
                _extend(path, plan)
        yield Store(path, plan)


def load(path: Path | str) -> xr.Dataset:
    """The results of a sweep as labelled arrays over its axes.

    Returns:
        One array per result and "status" (codes of `Status`), each of the shape of the grid; the
        configuration, versions and the sentences of failures are attributes.

    Raises:
        InputError: if there is no store of a sweep at the path.
    """
    attributes = _attributes(Path(path))
    axes: dict[str, list[float]] = dict(attributes["axes"])
    shape = tuple(len(values) for values in axes.values())
    with storage_errors(Path(path)):
        flat = xr.open_zarr(path, consolidated=False).load()
    variables = {
        str(name): (tuple(axes), flat[name].values.reshape(shape), flat[name].attrs)
        for name in flat.data_vars
        if name not in axes
    }
    return xr.Dataset(variables, coords=axes, attrs=attributes)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turns what the file system refuses into a sentence; what is stored already stays."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise InputError(
                f"no space left for {path}; finished points are kept: free some space and give "
                "the same command again"
            ) from None
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot use the store {path}: {reason}") from None


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Keeps other sweeps out. The system frees the lock when its process ends, however it ends."""
    name = _aside(path, "lock")
    with storage_errors(name):
        file: TextIO = name.open("a+")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip()
            raise InputError(
                f"another sweep ({owner}) writes to {path}; wait for it or give another store"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield


def _aside(path: Path, what: str) -> Path:
    return path.with_name(f".{path.name}.{what}")


def _create(path: Path, plan: Plan) -> None:
    """An empty store, made aside and moved into place."""
    new = _aside(path, "new")
    if new.exists():
        shutil.rmtree(new)
    values = {name: ("point", column) for name, column in plan.points(np.arange(plan.size)).items()}
    variables: dict[str, Any] = {
        r.name: ("point", _unknown(plan.size, r.dtype), {"description": r.description})
        for r in plan.results
    }
    codes = {status.name: int(status) for status in Status}
    variables["status"] = ("point", np.zeros(plan.size, "int8"), codes)
    attributes = {
        "axes": [[name, list(column)] for name, column in plan.axes],
        "plan": json.dumps(plan.fixed(), sort_keys=True),
        "configuration": json.dumps(plan.configuration, sort_keys=True),
        "versions": {name: metadata.version(name) for name in VERSIONS},
        "failures": {},
    }
    dataset = xr.Dataset({**values, **variables}, attrs=attributes)
    encoding: dict[str, Any] = {str(name): {"chunks": (plan.batch,)} for name in dataset.variables}
    # a result may be a number that xarray would take for "missing"
    for name in variables:
        encoding[name]["_FillValue"] = None
    dataset.to_zarr(new, mode="w", consolidated=False, zarr_format=3, encoding=encoding)
    new.rename(path)


def _unknown(size: int, dtype: str) -> np.ndarray:
    """What a pending point holds: NaN where the type has it."""
    kind = np.dtype(dtype)
    return np.full(size, np.nan if kind.kind == "f" else 0, kind)


def _check(path: Path, plan: Plan) -> None:
    """Whether the store belongs to this plan, or to one that this plan extends."""
    attributes = _attributes(path)
    found, wanted = json.loads(attributes["plan"]), plan.fixed()
    for name in wanted:
        if found.get(name) != json.loads(json.dumps(wanted[name])):
            raise InputError(
                f"the store {path} belongs to a sweep with another {name}: "
                f"{found.get(name)}, not {wanted[name]}; give another store"
            )
    for name, values in attributes["axes"]:
        missing = set(values) - set(dict(plan.axes)[name])
        if missing:
            raise InputError(
                f"the store {path} also holds {name} = {min(missing):g}; extend the axis or give "
                "another store"
            )


def _extend(path: Path, plan: Plan) -> None:
    """Make the store larger, with the points that it holds."""
    before = load(path)
    old, grown = _aside(path, "old"), _aside(path, "grown")
    if grown.exists():
        shutil.rmtree(grown)
    _create(grown, plan)
    group = zarr.open_group(grown, mode="r+")
    places = np.ix_(
        *(
            [values.index(v) for v in before.coords[name].values.tolist()]
            for name, values in plan.axes
        )
    )
    for name in before.data_vars:
        array: Any = group[str(name)]
        values = np.asarray(array[:]).reshape(plan.shape)
        values[places] = before[name].values
        array[:] = values.ravel()
    shape = before["status"].shape
    failures = {}
    for index, sentence in before.attrs["failures"].items():
        where = np.unravel_index(int(index), shape)
        at = tuple(axis.ravel()[w] for axis, w in zip(places, where, strict=True))
        failures[str(int(np.ravel_multi_index(at, plan.shape)))] = sentence
    group.attrs["failures"] = failures
    path.rename(old)
    grown.rename(path)
    shutil.rmtree(old)


def _attributes(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError(f"there is no store {path}")
    try:
        attributes = dict(zarr.open_group(path, mode="r").attrs)
        json.loads(attributes["plan"])  # pyright: ignore[reportArgumentType]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path} is not the store of a sweep: {error}") from None
    return attributes
