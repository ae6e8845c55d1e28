"""Reading option values; each complaint says what would be right."""

import math

from phasetheory.errors import InputError


def parse_number(text: str, what: str) -> float:
    """A finite number.

    Raises:
        InputError: if the text is none.
    """
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{what} must be a number, not {text.strip()!r}") from None
    if not math.isfinite(value):
        raise InputError(f"{what} must be finite, not {text.strip()!r}")
    return value


def parse_range(text: str) -> tuple[float, float]:
    """``LO:HI`` as two numbers with LO below HI.

    Raises:
        InputError: if it is anything else.
    """
    parts = text.split(":")
    if len(parts) != 2:
        raise InputError(f"--range is LO:HI, for example 100:10000, not {text!r}")
    low, high = (parse_number(part, "each end of --range") for part in parts)
    if low >= high:
        raise InputError(f"--range is empty or reversed: {low:g} is not below {high:g}")
    return low, high


def parse_numbers(text: str, what: str) -> list[float]:
    """Numbers between commas.

    Raises:
        InputError: if one is not a finite number, or there is none.
    """
    parts = [part for part in text.split(",") if part.strip()]
    if not parts:
        raise InputError(f"{what} needs at least one number")
    return [parse_number(part, f"each value of {what}") for part in parts]


def parse_axis(text: str, option: str) -> tuple[str, tuple[float, ...]]:
    """``NAME=LO:HI:logN``, ``NAME=LO:HI:linN`` or ``NAME=V1,V2,…`` as a name and ascending values.

    Raises:
        InputError: if it is anything else, or the range is empty.
    """
    example = f"{option} is NAME=LO:HI:logN, NAME=LO:HI:linN or NAME=V1,V2,…, not {text!r}"
    name, equals, values = text.partition("=")
    name = name.strip()
    if not (name and equals):
        raise InputError(example)
    if ":" not in values:
        return name, tuple(sorted(set(parse_numbers(values, option))))
    parts = values.split(":")
    scale, count = (parts[2][:3], parts[2][3:]) if len(parts) == 3 else ("", "")
    if scale not in ("log", "lin") or not count.isdigit():
        raise InputError(example)
    low, high = (parse_number(part, f"each end of {option}") for part in parts[:2])
    if not low < high:
        raise InputError(f"the range of {option} is empty: {low:g} is not below {high:g}")
    if not 2 <= int(count) <= 10_000:
        raise InputError(f"{option} needs from 2 to 10000 values, not {count}")
    if scale == "log" and low <= 0:
        raise InputError(f"a logarithmic range of {option} starts above 0, not at {low:g}")
    import numpy as np

    space = np.geomspace if scale == "log" else np.linspace
    return name, tuple(space(low, high, int(count)).tolist())
