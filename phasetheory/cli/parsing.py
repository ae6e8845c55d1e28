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
