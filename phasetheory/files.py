"""Writing files whole or not at all, and finding out early that they cannot be written."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from phasetheory.errors import InputError


def check_file(path: Path | None) -> None:
    """Make sure that a file can be written here.

    Raises:
        InputError: saying why it cannot.
    """
    if path is None:
        return
    try:
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")
        if path.exists() and not path.is_file():
            return  # a device or a pipe is written to as it is
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".phasetheory-"):
            pass
    except OSError as error:
        raise InputError(f"cannot write {path}: {_reason(error)}") from None


@contextmanager
def output_folder(path: Path | None) -> Iterator[Path | None]:
    """A writable folder, made if need be, and removed again if it was made here for nothing.

    Raises:
        InputError: saying why there can be none.
    """
    if path is None:
        yield None
        return
    try:
        made = not path.exists()
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {path}: {_reason(error)}") from None
    check_file(path / "phases.json")
    try:
        yield path
    except BaseException:
        if made and not any(path.iterdir()):
            path.rmdir()
        raise


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file in one step: readers see the old content or the new, never a part.

    Raises:
        InputError: if it cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    path = path.resolve()  # a link stays, what it points to is replaced
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".phasetheory-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {_reason(error)}") from None


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, atomically; a NaN or infinity in it is an error."""
    text = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    # a file name that is no valid text may have become the name of the action
    write_atomically(path, text.encode(errors="replace"))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
