"""Running a plan: in process, on local worker processes, or on a Dask cluster.

Workers only compute; this process writes. Batches are the same whoever computes them, so that the
content of the store is the same to the last bit.
"""

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np

from phasetheory.errors import InputError, PhaseTheoryError
from phasetheory.sweeps.plan import Plan, load_function
from phasetheory.sweeps.store import Status, Store, open_store

#: seconds to wait for a scheduler
PATIENCE = 5
#: batches under way per worker: more would keep results waiting in memory
AHEAD = 3


def run(
    plan: Plan,
    path: Path | str,
    *,
    scheduler: str | None = None,
    workers: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Compute all points of a plan that its store does not hold yet.

    Args:
        path: folder of the store; made if need be.
        scheduler: address of a Dask scheduler, ``tcp://host:port``.
        workers: number of local worker processes; 0 to compute in this process.
        progress: told the number of points that are done, and of all points.

    Raises:
        InputError: if the plan or the store is unusable, or the scheduler is not reached or lost;
            finished points are kept.
    """
    load_function(plan.function)  # complains before anything is made
    with open_store(Path(path), plan) as store:
        waiting = [(b, store.pending(b)) for b in range(plan.batches)]
        waiting = [(b, indices) for b, indices in waiting if indices.size]
        done = plan.size - sum(indices.size for _, indices in waiting)
        progress(done, plan.size)
        if not waiting:
            return
        if scheduler is None and not workers:
            outcomes: Generator = ((b, i, compute(plan, i)) for b, i in waiting)
        else:
            outcomes = _on_cluster(plan, waiting, scheduler, workers)
        with contextlib.closing(outcomes):
            for batch, indices, (results, sentences) in outcomes:
                _record(store, batch, indices, results, sentences)
                done += indices.size
                progress(done, plan.size)


def compute(plan: Plan, indices: np.ndarray) -> tuple[dict[str, np.ndarray], dict[int, str]]:
    """Results of points, "status" among them, and the sentences of those that failed.

    Where a batch raises, its points are tried one by one, so that one failure spoils no other.
    """
    function = load_function(plan.function)
    try:
        return _checked(plan, function(plan.points(indices), plan.configuration), indices)
    except Exception as error:
        if indices.size > 1:
            parts = [compute(plan, indices[i : i + 1]) for i in range(indices.size)]
            results = {
                name: np.concatenate([part[0][name] for part in parts]) for name in parts[0][0]
            }
            return results, {i: s for part in parts for i, s in part[1].items()}
        sentence = str(error) if isinstance(error, PhaseTheoryError) else repr(error)
        empty = {r.name: np.zeros(1, r.dtype) for r in plan.results}
        for name, value in empty.items():
            empty[name] = np.full(1, np.nan) if value.dtype.kind == "f" else value
        return {**empty, "status": np.array([Status.failed])}, {int(indices[0]): sentence}


def _checked(plan: Plan, found: dict[str, Any], indices: np.ndarray):
    """Results in their types; where a point is called done and lacks one, it has failed."""
    required = {r.name for r in plan.results if not r.optional}
    missing = {r.name for r in plan.results} - set(found)
    if missing:
        raise InputError(f"{plan.function} gives no {', '.join(sorted(missing))}")
    results = {
        r.name: np.broadcast_to(np.asarray(found[r.name], r.dtype), indices.shape)
        for r in plan.results
    }
    status = np.array(np.broadcast_to(found.get("status", Status.done), indices.shape))
    sentences = {}
    for name, values in results.items():
        if values.dtype.kind == "f" and name in required:
            for k in np.flatnonzero((status == Status.done) & np.isnan(values)):
                status[k] = Status.failed
                sentences[int(indices[k])] = f"{name} is not a number"
    return {**results, "status": status.astype("int8")}, sentences


def _record(store: Store, batch, indices, results, sentences) -> None:
    store.note(sentences)
    store.write(batch, indices, results)


def _on_cluster(plan: Plan, waiting, scheduler: str | None, workers: int) -> Generator:
    try:
        # its annotations are of both its synchronous and its asynchronous use
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise InputError("worker processes need Dask: pip install 'phasetheory[cluster]'") from None
    # what it would print of a lost connection, with tracebacks, is said in one sentence here
    for name in [n for n in logging.root.manager.loggerDict if n.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    where = scheduler or "of the local workers"
    with contextlib.ExitStack() as stack:
        try:
            if scheduler is None:
                cluster = stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=workers, threads_per_worker=1, dashboard_address=None
                    )
                )
                client = stack.enter_context(distributed.Client(cluster))
            else:
                client = stack.enter_context(distributed.Client(scheduler, timeout=PATIENCE))
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at {where}: {error}") from None
        queue = iter(waiting)
        futures: dict[Any, tuple[int, np.ndarray]] = {}

        def submit(count: int) -> None:
            for _, (batch, indices) in zip(range(count), queue, strict=False):
                future = client.submit(compute, plan, indices, pure=False)
                futures[future] = batch, indices

        submit(AHEAD * max(1, workers or len(client.nthreads())))
        try:
            while futures:
                finished = distributed.wait(
                    list(futures), return_when="FIRST_COMPLETED", timeout=None
                ).done
                if client.status != "running":
                    raise OSError("connection lost")
                for future in finished:
                    batch, indices = futures.pop(future)
                    outcome = future.result()
                    yield batch, indices, outcome
                    submit(1)
        except (
            OSError,
            TimeoutError,
            asyncio.CancelledError,
            distributed.CancelledError,
            distributed.scheduler.KilledWorker,
        ) as error:
            raise InputError(
                f"the Dask scheduler {where} was lost ({type(error).__name__}); finished points "
                "are kept: give the same command again"
            ) from None
