"""Opacus: `make_private` in the mode asked for, then the usual loop, on one resident batch, no loader."""
# pyright: reportMissingImports=false

from __future__ import annotations

import os
import warnings

import opacus
import torch

from benchmarks.training.cases import (
    LEARNING_RATE,
    MAX_NORM,
    MOST_GIGABYTES,
    NOISE_MULTIPLIER,
    gradient_gigabytes,
    make_data,
)
from benchmarks.training.serving import serve, spec
from benchmarks.training.workers.torch_networks import network


def main() -> None:
    asked = spec()
    case, mode = asked["case"], asked["mode"]
    warnings.filterwarnings("ignore")
    torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    module = network(case.network)
    size = sum(parameter.numel() for parameter in module.parameters())
    needed = gradient_gigabytes(size, case.batch)
    if mode == "hooks" and needed > MOST_GIGABYTES:
        raise MemoryError(f"not run: the gradients of {case.batch} single examples take {needed:.0f} GB")
    rows = make_data(case.network, case.batch)
    x, y = torch.from_numpy(rows["x"]), torch.from_numpy(rows["y"]).long()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=case.batch)
    made = opacus.PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=LEARNING_RATE),
        criterion=torch.nn.CrossEntropyLoss(),
        data_loader=loader,
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=MAX_NORM,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    model, optimizer = made[:2]
    criterion = made[2] if mode == "ghost" else torch.nn.CrossEntropyLoss()  # ghost mode returns one more

    def work() -> int:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        return 1

    serve(work, parameters=size, version=f"{opacus.__version__} on torch {torch.__version__}")


if __name__ == "__main__":
    main()
