"""Speed of the full-batch Langevin sampler beside SGLD on minibatches and a loop in PyTorch.

    pip install torch      # the CPU build is enough
    python validation/benchmarks/sampler_speed.py

One run on one machine; what counts are the ratios. Writes sampler_speed.json beside this file.
"""

import json
import os
import platform
import time
from functools import partial
from importlib import metadata
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import torch

from phasetheory.networks.attention import Network
from phasetheory.networks.chains import Plan, problem, starting_points
from phasetheory.networks.samplers import Sampler, advance, initial_state
from phasetheory.networks.task import CopyTask, sample_sequences

L, V, CHAINS, BATCH = 32, 8, 8, 64
NETWORK, TASK = Network("softmax", L, V), CopyTask(L, V)


def chain_steps_per_second(sampler: Sampler, P: int, records: int) -> float:
    """Chain-steps per second of one of our samplers, after compilation."""
    case = problem(TASK, P, 1.0, raw=sampler.method == "sgld")
    state = initial_state(
        NETWORK, sampler, starting_points(NETWORK, case, Plan(chains=CHAINS)), case
    )
    chunk = partial(advance, network=NETWORK, sampler=sampler, records=records)
    key = jax.random.key(0)
    state, _ = jax.block_until_ready(chunk(key, state, case, np.float64(1)))
    best = np.inf
    for _ in range(3):
        begun = time.perf_counter()
        state, _ = jax.block_until_ready(chunk(key, state, case, np.float64(0)))
        best = min(best, time.perf_counter() - begun)
    return records * sampler.thin * CHAINS / best


def torch_chain_steps_per_second(P: int, steps: int) -> float:
    """The same dynamics written plainly: one-hot data in memory, one chain after the other."""
    X = torch.nn.functional.one_hot(
        torch.from_numpy(sample_sequences(TASK, P, 0)).long(), V
    ).float()
    Y = torch.roll(X, 1, dims=1)
    g, w = torch.randn(L, L, requires_grad=True), torch.randn(V, V, requires_grad=True)
    epsilon = 1e-3

    def step():
        error = Y - torch.softmax(g, dim=-1) @ (X @ w)
        energy = (g.square().sum() + w.square().sum() + error.square().sum() / L) / 2
        for x, slope in zip((g, w), torch.autograd.grad(energy, (g, w)), strict=True):
            with torch.no_grad():
                x += -epsilon * slope + (2 * epsilon) ** 0.5 * torch.randn_like(x)

    step()
    begun = time.perf_counter()
    for _ in range(steps):
        step()
    return steps / (time.perf_counter() - begun)


def matrix_product_rate(n: int = 2048) -> float:
    """Floating-point operations per second of a large product in double precision."""
    a = jnp.asarray(np.random.default_rng(0).normal(size=(n, n)))
    product = jax.jit(jnp.matmul)
    product(a, a).block_until_ready()
    best = np.inf
    for _ in range(5):
        begun = time.perf_counter()
        product(a, a).block_until_ready()
        best = min(best, time.perf_counter() - begun)
    return 2 * n**3 / best


def operations_of_a_gradient() -> int:
    """Of the products in one gradient of one chain: M with the two pair matrices of W and, in
    reverse, with those of A; A^T A and S^T A with their reverses; W W^T with its own."""
    return 8 * L**2 * V**2 + (2 + 4) * L**3 + (2 + 2) * L**3 + (2 + 4) * V**3


def main() -> None:
    rows = {}
    for P, records, torch_steps in ((1000, 40, 200), (100_000, 40, 6)):
        ours = chain_steps_per_second(Sampler("langevin"), P, records)
        sgld = chain_steps_per_second(Sampler("sgld", batch=BATCH), P, 4)
        plain = torch_chain_steps_per_second(P, torch_steps)
        rows[str(P)] = {
            "full_batch": ours,
            "blackjax_sgld_minibatches_of_64": sgld,
            "pytorch_full_batch": plain,
            "ratio_to_sgld": ours / sgld,
            "ratio_to_pytorch": ours / plain,
        }
        print(P, rows[str(P)], flush=True)
    rate = matrix_product_rate()
    gradient = rows["100000"]["full_batch"] * operations_of_a_gradient()
    result = {
        "what": "chain-steps per second, softmax attention, 8 chains, L = 32, V = 8",
        "chain_steps_per_second": rows,
        "matrix_product_flops": rate,
        "operations_per_gradient": operations_of_a_gradient(),
        "share_of_matrix_product_rate": gradient / rate,
        "machine": {"cores": os.cpu_count(), "processor": platform.machine()},
        "versions": {n: metadata.version(n) for n in ("jax", "blackjax", "torch", "numpy")},
        "note": "full batch and SGLD in double precision, PyTorch in single precision",
    }
    print(json.dumps(result, indent=1))
    Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
