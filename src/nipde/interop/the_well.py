"""An archive as an HDF5 file in the layout of The Well, PolymathicAI's collection of simulations.

A system is a trajectory, a pair is a step of it: The Well knows time and no other way to hold many fields of one
system. Steps are numbered, not timed, and their order means nothing. Hidden fields and parameters do not vary with it.
Numbers are float32, as the layout says.
"""

import json
import os
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import nipde
from nipde.atomic import atomic_file
from nipde.data.archive import Archive, open_archive
from nipde.data.system import Quantity, System
from nipde.errors import ArchiveError, needing

ROLES = {"load": "loads", "response": "responses", "hidden": "hidden"}
#: Systems that are read and written together.
TOGETHER = 64


def to_the_well(
    archive: Archive | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    part: str | None = None,
    progress: Callable[[int], None] = lambda systems: None,
) -> Path:
    """Write all systems, or those of one `part` of the split; the file is there whole or not at all."""
    with needing("h5py", extra="measurements"):
        import h5py
    opened = archive if isinstance(archive, Archive) else open_archive(archive)
    systems = np.arange(len(opened)) if part is None else opened.indices(part)
    if not len(systems):
        raise ArchiveError(expected=f"systems in the part {part}", got="none", remedy="choose another part")
    with atomic_file(Path(path)) as partial, h5py.File(partial, "w") as file:
        _root(file, opened, len(systems), part)
        _dimensions(file, opened)
        _boundaries(file, opened)
        _empty(file, opened, len(systems))
        for first in range(0, len(systems), TOGETHER):
            chosen = systems[first : first + TOGETHER]
            _fill(file, opened, opened.read(chosen), slice(first, first + len(chosen)))
            progress(len(chosen))
    return Path(path)


def _root(file: Any, archive: Archive, systems: int, part: str | None) -> None:
    recipe = archive.plan.recipe.to_dict()
    numbers = {name: float(value) for name, value in recipe.items() if type(value) in (int, float)}
    file.attrs.update(
        {
            "dataset_name": f"nipde_{recipe['problem']}",
            "grid_type": "cartesian",
            "n_spatial_dims": archive.grid.dimension,
            "n_trajectories": systems,
            "simulation_parameters": _words(list(numbers)),
            **numbers,
            # Not of the layout: where it comes from, and what its steps are.
            "nipde_version": nipde.__version__,
            "nipde_digest": archive.digest,
            "nipde_plan": json.dumps(archive.plan.to_dict()),
            "nipde_part": part or "all",
            "nipde_steps": "pairs (load, response) of one system; their order means nothing",
        }
    )


def _dimensions(file: Any, archive: Archive) -> None:
    group = file.create_group("dimensions")
    space = archive.grid.axis_names
    group.attrs["spatial_dims"] = _words(space)
    time = group.create_dataset("time", data=np.arange(archive.plan.recipe.pairs, dtype=np.float32))
    time.attrs["sample_varying"] = False
    for name, axis in zip(space, archive.grid.axes, strict=True):
        along = group.create_dataset(name, data=axis.coordinates.astype(np.float32))
        along.attrs.update({"sample_varying": False, "time_varying": False})


def _boundaries(file: Any, archive: Archive) -> None:
    group = file.create_group("boundary_conditions")
    quantity = archive.quantities.response
    for name, axis in zip(archive.grid.axis_names, archive.grid.axes, strict=True):
        side = group.create_group(f"{name}_boundary")
        mask = np.zeros(axis.nodes, dtype=bool)
        mask[[0, -1]] = True
        held = [entry.name for entry in _entries(archive, quantity)] if axis.boundary.essential else []
        side.attrs.update(
            {
                "associated_dims": _words([name]),
                "associated_fields": _words(held),
                # Dirichlet and Neumann sides are both walls: the layout describes geometry; values stand in attributes.
                "bc_type": "periodic" if axis.boundary.periodic else "wall",
                "sample_varying": False,
                "time_varying": False,
            }
        )
        side.create_dataset("mask", data=mask)
        side.create_dataset("values", data=np.zeros(2, dtype=np.float32))


class _Entry:
    """One dataset: a scalar (order 0), vector (1) or tensor (2) field, from some components of a quantity."""

    def __init__(self, order: int, name: str, components: Sequence[int]) -> None:
        self.order, self.name, self.components = order, name, list(components)

    def values(self, field: np.ndarray, dimension: int) -> np.ndarray:
        """Components last, as one axis per order."""
        chosen = np.moveaxis(np.take(field, self.components, axis=-dimension - 1), -dimension - 1, -1)
        return chosen.reshape(*chosen.shape[:-1], *(dimension,) * self.order).astype(np.float32)


def _entries(archive: Archive, quantity: Quantity) -> list[_Entry]:
    """Components named after axes make vectors, after pairs of axes tensors; all others are scalars of their own."""
    name, names, space = quantity.name.replace(" ", "_"), quantity.components, archive.grid.axis_names
    every = range(len(names))
    if len(names) == 1:
        return [_Entry(0, name, every)]
    for order in (1, 2):
        if names == tuple("".join(axes) for axes in product(space, repeat=order)):
            return [_Entry(order, name, every)]
    return [_Entry(0, f"{name}_{component}".replace(" ", "_"), [place]) for place, component in enumerate(names)]


def _empty(file: Any, archive: Archive, systems: int) -> None:
    """All datasets of fields and scalars, still without values."""
    grid, pairs = archive.grid, archive.plan.recipe.pairs
    groups = [file.create_group(f"t{order}_fields") for order in range(3)]
    for role, stored in ROLES.items():
        quantity, own = getattr(archive.quantities, role), archive.layout[stored].by_system
        varies = role != "hidden"
        for entry in _entries(archive, quantity):
            shape = ((systems,) if own else ()) + ((pairs,) if varies else ()) + grid.shape
            dataset = groups[entry.order].create_dataset(
                entry.name, shape + (grid.dimension,) * entry.order, dtype=np.float32
            )
            dataset.attrs.update(
                {"dim_varying": np.ones(grid.dimension, dtype=bool), "sample_varying": own, "time_varying": varies}
            )
            dataset.attrs.update({"units": quantity.unit, "nipde_role": role})
            if entry.order == 2:
                dataset.attrs.update({"symmetric": False, "antisymmetric": False})
    for group in groups:
        group.attrs["field_names"] = _words(list(group))
    scalars = file.create_group("scalars")
    for names, varies in ((archive.plan.recipe.parameter_names, False), (archive.plan.recipe.diagnostic_names, True)):
        for name in names:
            dataset = scalars.create_dataset(name, (systems, pairs) if varies else (systems,), dtype=np.float32)
            dataset.attrs.update({"sample_varying": True, "time_varying": varies})
    scalars.attrs["field_names"] = _words(list(scalars))


def _fill(file: Any, archive: Archive, batch: System, rows: slice) -> None:
    dimension = archive.grid.dimension
    for role, stored in ROLES.items():
        for entry in _entries(archive, getattr(archive.quantities, role)):
            dataset = file[f"t{entry.order}_fields"][entry.name]
            values = entry.values(getattr(batch, stored), dimension)
            if dataset.attrs["sample_varying"]:
                dataset[rows] = values
            else:
                dataset[...] = values[0]
    for name, numbers in {**batch.parameters, **batch.diagnostics}.items():
        file["scalars"][name][rows] = numbers.astype(np.float32)


def _words(names: Sequence[str]) -> Any:
    """A list of strings as h5py stores one, empty or not."""
    import h5py

    return np.array(list(names), dtype=h5py.string_dtype())
