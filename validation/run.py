"""Redo recorded studies: ``python validation/run.py [NAME | NAME/RUN ...]``; by default all.

Each run of `studies.toml` leaves its JSON and figure in ``validation/NAME/``.
"""

import sys
import tempfile
import tomllib
from pathlib import Path

from phasetheory.cli import run

FOLDER = Path(__file__).parent


def redo(name: str, runs: dict[str, str]) -> None:
    """All runs of one study; exit status 1 of a run (something disagrees) is a result too."""
    target = FOLDER / name
    target.mkdir(exist_ok=True)
    for part, arguments in runs.items():
        print(f"\n== {name}: phasetheory validate {arguments}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            status = run(["validate", *arguments.split(), "--out", folder])
            if status > 1:
                raise SystemExit(status)
            for end in ("json", "png"):
                content = (Path(folder) / f"validate.{end}").read_bytes()
                (target / f"{part}.{end}").write_bytes(content)


def main(names: list[str]) -> None:
    studies = tomllib.loads((FOLDER / "studies.toml").read_text())
    for given in names or studies:
        name, _, part = given.partition("/")
        if name not in studies or (part and part not in studies[name]["runs"]):
            raise SystemExit(f"there is no study {given}; the studies are {', '.join(studies)}")
        runs = studies[name]["runs"]
        redo(name, {part: runs[part]} if part else runs)


if __name__ == "__main__":
    main(sys.argv[1:])
