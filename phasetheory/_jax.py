"""JAX as this library needs it: double precision, and not the release with wrong numbers.

Importing this module switches JAX to 64 bits, which theory needs; import it before making arrays.
"""

from collections.abc import Callable
from functools import partial

import jax

from phasetheory.errors import PhaseTheoryError

if jax.__version__ == "0.10.2":
    # jit(vmap(...)) of a small matrix product returns wrong rows on CPU: jax-ml/jax#39103
    raise PhaseTheoryError("jax 0.10.2 computes wrong numbers on CPU; install jax 0.10.1")

jax.config.update("jax_enable_x64", True)

#: `jax.jit` for small kernels: without XLA's fusion emitters they compile in less than half the
#: time and run as fast (docs/decisions.md)
jit_small: Callable = partial(jax.jit, compiler_options={"xla_cpu_use_fusion_emitters": False})
