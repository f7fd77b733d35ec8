"""A function in several processes at once, joined by gloo over the loopback interface."""

import os
import socket
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

import torch
from torch import distributed

Found = TypeVar("Found")


def in_ranks(ranks: int, function: Callable[..., Found], *given: object) -> list[Found]:
    """What a module's function returns in each of so many new processes, one thread each."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with ProcessPoolExecutor(ranks, mp_context=get_context("spawn")) as fresh:
        waiting = [fresh.submit(_joined, rank, ranks, port, function, given) for rank in range(ranks)]
        return [one.result(timeout=1800) for one in waiting]


def _joined(rank: int, ranks: int, port: int, function: Callable[..., Found], given: tuple[object, ...]) -> Found:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    try:
        return function(*given)
    finally:
        distributed.destroy_process_group()
