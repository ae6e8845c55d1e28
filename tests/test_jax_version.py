"""The installed JAX computes right numbers: jax 0.10.2 on CPU does not (jax-ml/jax#39103)."""

import jax
import jax.numpy as jnp
import numpy as np

import phasetheory._jax  # noqa: F401


def test_vmapped_matrix_products():
    M = np.random.default_rng(0).normal(size=(3, 3))
    rows = np.random.default_rng(1).normal(size=(16_385, 3))
    found = jax.jit(jax.vmap(lambda r: jnp.sum((jnp.asarray(M) @ r) ** 2)))(rows)
    assert found.dtype == np.float64
    np.testing.assert_allclose(np.asarray(found), ((rows @ M.T) ** 2).sum(axis=1), rtol=1e-12)
