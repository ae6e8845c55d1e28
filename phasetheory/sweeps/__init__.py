"""Many settings: a plan of points, a store of their results, and runners, in process or on Dask.

Nothing here knows what it runs: a plan names a function by its import path. A store is a Zarr group
that xarray reads; it says of each point whether it is done, and a sweep goes on from it after any
interruption, without doing a finished point again.
"""

from phasetheory.sweeps.plan import Plan, Result
from phasetheory.sweeps.runner import run
from phasetheory.sweeps.store import Status, load

__all__ = ["Plan", "Result", "Status", "load", "run"]
