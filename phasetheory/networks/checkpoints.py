"""Arrays of a run that goes on later: a file holds one complete state, or the one before.

A checkpoint names the run it belongs to, so that no run goes on from another one's state.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from phasetheory.errors import InputError
from phasetheory.files import write_atomically


def save(path: Path, run: dict[str, Any], tree: Any) -> None:
    """Write the leaves of a tree of arrays.

    Args:
        run: what the state depends on, as JSON values.

    Raises:
        InputError: if the file cannot be written.
    """
    buffer = io.BytesIO()
    arrays = {f"leaf{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(tree))}
    arrays["run"] = np.array(json.dumps(run, sort_keys=True))
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


def load(path: Path, run: dict[str, Any], like: Any) -> Any:
    """The tree that was saved; None where there is no file.

    Args:
        like: a tree of the same structure and types; the sizes may differ.

    Raises:
        InputError: if the file cannot be read or belongs to another run.
    """
    if not path.exists():
        return None
    try:
        # a file that is no archive is closed by its own handle
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            found = json.loads(str(file["run"]))
            leaves = [file[f"leaf{i}"] for i in range(len(file.files) - 1)]
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read the checkpoint {path}: {error}") from None
    if found != run:
        names = sorted(n for n in {*found, *run} if found.get(n) != run.get(n))
        raise InputError(
            f"the checkpoint {path} belongs to a run with other {', '.join(names)}; "
            "give the same settings or another folder"
        )
    structure = jax.tree.structure(like)
    if structure.num_leaves != len(leaves):
        raise InputError(f"the checkpoint {path} holds {len(leaves)} arrays of another version")
    return jax.tree.unflatten(structure, leaves)
