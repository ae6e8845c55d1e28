"""The exceptions a user can act on. Each carries one sentence: what, where, what would be right."""


class PhaseTheoryError(Exception):
    """Base class; the command line prints the sentence and leaves with exit status 2."""


class InputError(PhaseTheoryError, ValueError):
    """A setting, expression, range or file is not usable as given."""


class ActionError(PhaseTheoryError, ArithmeticError):
    """The action itself is unusable: not finite in the box, or without a minimum inside it."""
