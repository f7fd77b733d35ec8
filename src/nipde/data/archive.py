"""A finished archive, opened for reading: systems by index, parts of the split, and proof that the bytes are intact."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import zarr
from jaxtyping import Int
from zarr.abc.store import Store

from nipde.data.checked_json import damaged, parsed
from nipde.data.layout import (
    FORMAT,
    FORMAT_VERSION,
    attributes_of,
    check_metadata,
    chunk_key,
    file_sizes,
    layout_of,
    stored,
)
from nipde.data.manifest import MANIFEST, MANIFEST_BYTES, Manifest, sha256
from nipde.data.plan import Plan, indices_of
from nipde.data.storage import MISSING, ArchiveStore, Storage
from nipde.data.system import System
from nipde.errors import ArchiveError, IntegrityError, NoSuchSystemError

#: Bytes that the metadata of one array may have.
METADATA_BYTES = 2**20
COPY = "copy the archive again, or generate it again"
#: Arrays that make up systems; `fine` besides where they were solved on a finer mesh.
BY_SYSTEM = ("loads", "responses", "hidden", "seed", "parameters", "diagnostics")


def open_archive(
    address: str | os.PathLike[str], *, verify: bool = False, options: dict[str, Any] | None = None
) -> "Archive":
    """Open an archive in a folder or an object store (`s3://…`, with fsspec `options`).

    Opening checks the manifest and all metadata; `verify=True` also reads and checks every other byte.
    """
    archive = Archive(Storage.at(address, options))
    if verify:
        archive.verify()
    return archive


class Archive:
    """Systems on disk; may be pickled, and used after a fork: each process opens its own handles."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.manifest = _read_manifest(storage)
        self.plan = self._read_plan()
        self.layout = layout_of(self.plan)
        self.grid, self.quantities, self.split = self.plan.recipe.grid, self.plan.recipe.quantities, self.plan.splits
        self._sizes = self._check_listed()
        self._metadata = check_metadata(self.plan, self._read_metadata([f"{name}/zarr.json" for name in self.layout]))
        self._opened: tuple[int, dict[str, Any]] | None = None

    def __len__(self) -> int:
        return self.plan.systems

    def __getitem__(self, index: int | slice | Sequence[int] | Int[np.ndarray, " system"]) -> System:
        """One system, or several with a leading system axis."""
        if isinstance(index, int | np.integer):
            return self._system(self._arrays(np.asarray([self._place(int(index))]), None), at=0)
        if isinstance(index, slice):
            index = range(*index.indices(len(self)))
        return self.read(index)

    def read(
        self, systems: Sequence[int] | Int[np.ndarray, " system"], *, pairs: Sequence[int] | None = None
    ) -> System:
        """Several systems at once, in the given order, optionally only some of their pairs."""
        places = np.asarray([self._place(int(index)) for index in systems], dtype=int)
        distinct, order = np.unique(places, return_inverse=True)
        arrays = self._arrays(distinct, None if pairs is None else np.asarray(pairs, dtype=int))
        return self._system(arrays, at=order)

    def indices(self, part: str) -> Int[np.ndarray, " system"]:
        """Systems of `train`, `validation` or `test`."""
        return indices_of(self.split["systems"], part)

    def load_indices(self, part: str) -> Int[np.ndarray, " pair"]:
        """Pairs whose loads belong to a part; all of them where every system has loads of its own."""
        if "loads" not in self.split:
            return np.arange(self.plan.recipe.pairs)
        return indices_of(self.split["loads"], part)

    def check_fills_box(self) -> None:
        """Raise where systems are specimens with an outline: their fields are not known on the whole grid."""
        if self.plan.recipe.on_shapes:
            raise ArchiveError(
                expected="systems that fill the box of their grid", got=f"{self.plan.recipe.problem}: specimens",
                remedy="use nipde evaluate output-error, or nipde.evaluation.specimens.readings_of",
            )  # fmt: skip

    def drawn(self, count: int) -> Int[np.ndarray, " system"]:
        """So many systems at random, the same ones every time; all where there are fewer."""
        if count < 0:
            raise ArchiveError(expected="a number of systems >= 0", got=count, remedy="choose 0 or more")
        return np.random.default_rng(0).permutation(len(self))[:count]

    def provenance(self, system: int) -> dict[str, Any]:
        """How one system came to be: enough to make it again."""
        place = self._place(system)
        one = self[place]
        return {
            "recipe": self.plan.recipe.to_dict(),
            "seed": int(one.seed),
            "shared_seed": None if self.plan.shared_seed is None else int(self.plan.shared_seed),
            "parameters": {name: float(value) for name, value in one.parameters.items()},
            "residual": float(np.max(one.diagnostics["residual"])),
            "versions": self.manifest.shards[place // self.plan.systems_per_shard].versions,
        }

    @property
    def digest(self) -> str:
        """SHA-256 of all files but the manifest: equal content, equal digest."""
        return self.manifest.digest

    def verify(self) -> None:
        """Raise an IntegrityError that names the first damaged file and chunk, if there is one."""
        for problem in self.problems():
            raise problem

    def problems(self, *, checked: Callable[[], None] = lambda: None) -> Iterator[IntegrityError]:
        """Every damaged file, one error each; `checked` is called after each file."""
        for key in self.manifest.files:
            intact = self._intact(key)
            checked()
            if not intact:
                yield self._explain(key)

    def rebuild(self, system: int) -> None:
        """Compute a system again from its provenance alone; raise unless every stored bit is the same."""
        place = self._place(system)
        kept = self[place]
        again = self.plan.recipe.build(np.uint64(kept.seed), shared_seed=self.plan.shared_seed)
        for name in (name for name in self._by_system if name != "seed"):
            if not np.array_equal(stored(name, kept), stored(name, again), equal_nan=True):
                made = self.manifest.shards[place // self.plan.systems_per_shard].versions
                raise IntegrityError(
                    f"{name} of system {place} cannot be reproduced", expected="the stored bits", got="others",
                    remedy=f"compare versions: it was made with {made}",
                )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def _read_metadata(self, keys: list[str]) -> dict[str, bytes]:
        def read(key: str) -> bytes:
            try:
                data = self.storage.read(key, 0, METADATA_BYTES)
            except MISSING as error:
                raise IntegrityError(f"{key} is missing (metadata, all chunks)", remedy=COPY) from error
            if sha256(data) != self.manifest.fixed.get(key):
                raise IntegrityError(f"{key} is damaged (metadata, all chunks)", remedy=COPY)
            return data

        with ThreadPoolExecutor(len(keys)) as pool:
            return dict(zip(keys, pool.map(read, keys), strict=True))

    def _read_plan(self) -> Plan:
        """The plan in the root's attributes, which must be those of an archive of this plan."""
        root = parsed(self._read_metadata(["zarr.json"])["zarr.json"], "zarr.json", dict[str, Any])
        attributes = root.get("attributes")
        if not isinstance(attributes, dict):
            raise damaged("zarr.json")
        stated = {name: attributes.get(name) for name in ("format", "format_version")}
        if stated != {"format": FORMAT, "format_version": FORMAT_VERSION}:
            raise ArchiveError(
                expected=f"{FORMAT} version {FORMAT_VERSION}", got=" version ".join(map(str, stated.values())),
                remedy="use the nipde that wrote it",
            )  # fmt: skip
        plan = Plan.from_dict(attributes.get("plan"))
        meant = json.loads(json.dumps(attributes_of(plan)))
        for name in ("grid", "quantities", "split"):
            if attributes.get(name) != meant[name]:
                raise ArchiveError(
                    f"{name} of zarr.json does not fit its plan", expected=meant[name],
                    got=ascii(attributes.get(name))[:300], remedy="use the nipde that wrote it",
                )  # fmt: skip
        return plan

    def _check_listed(self) -> dict[str, int]:
        """Size of every file but metadata; an IntegrityError unless the manifest lists these and no others."""
        plan, sizes = self.plan, file_sizes(self.plan, self.layout)
        metadata = {"zarr.json", *(f"{name}/zarr.json" for name in self.layout)}
        same = self.manifest.fixed.keys() == sizes.keys() | metadata and len(self.manifest.shards) == plan.shards
        for record in self.manifest.shards if same else ():
            due = file_sizes(plan, self.layout, record.shard)
            same = same and record.files.keys() == due.keys()
            sizes.update(due)
        if not same:
            raise IntegrityError(f"{MANIFEST} does not list the files of its plan", remedy=COPY)
        return sizes

    def zarr_store(self) -> Store:
        """Read-only view for zarr: the listed files and nothing else."""
        return ArchiveStore(self.storage, self._metadata, self._sizes)

    @property
    def _by_system(self) -> tuple[str, ...]:
        return (*BY_SYSTEM, "fine") if "fine" in self.layout else BY_SYSTEM

    def _array(self, name: str) -> Any:
        """An array's handle in this process: event loops and sockets do not survive a fork."""
        if self._opened is None or self._opened[0] != os.getpid():
            group = zarr.open_group(self.zarr_store(), mode="r", zarr_format=3)
            self._opened = os.getpid(), {name: group[name] for name in self._by_system}
        return self._opened[1][name]

    def _arrays(self, systems: np.ndarray, pairs: np.ndarray | None) -> dict[str, np.ndarray]:
        """The stored arrays of ascending distinct systems."""
        arrays = {}
        for name in self._by_system:
            shared = not self.layout[name].by_system
            selection: tuple[Any, ...] = (np.zeros(1, dtype=int) if shared else systems,)
            if "pair" in self.layout[name].dimensions and pairs is not None:
                selection = (*selection, pairs)
            try:
                values = np.asarray(self._array(name).oindex[selection])
            except Exception as error:  # of any storage or codec: the bytes tell whether they are to blame
                if isinstance(error, ArchiveError) and not isinstance(error, IntegrityError):
                    raise  # they could not be had
                raise self._first_damage(name, systems) from error
            arrays[name] = np.broadcast_to(values, (len(systems), *values.shape[1:])) if shared else values
        return arrays

    def _system(self, arrays: dict[str, np.ndarray], *, at: Any) -> System:
        named: dict[str, Any] = {
            name: {key: arrays[name][at][..., place] for place, key in enumerate(self.layout[name].attributes["names"])}
            for name in ("parameters", "diagnostics")
        }
        fields: dict[str, Any] = {name: arrays[name][at] for name in self._by_system if name not in named}
        return System(grid=self.grid, **fields, **named)

    def _place(self, system: int) -> int:
        place = system + len(self) if system < 0 else system
        if not 0 <= place < len(self):
            raise NoSuchSystemError(
                expected=f"a system from 0 to {len(self) - 1}", got=system, remedy="use one of them"
            )
        return place

    def _first_damage(self, name: str, systems: np.ndarray) -> Exception:
        """The error that names the damaged file, after a failed read."""
        layout = self.layout[name]
        shards = np.unique(systems // self.plan.systems_per_shard) if layout.by_system else [0]
        for shard in shards:
            key = chunk_key(name, layout, int(shard))
            if not self._intact(key):
                return self._explain(key)
        return ArchiveError(f"{name} could not be read", remedy="see the error above; the stored bytes are intact")

    def _intact(self, key: str) -> bool:
        try:
            size = self._sizes.get(key)
            digest = self.storage.digest(key, min(self.storage.size(key), METADATA_BYTES) if size is None else size)
        except (*MISSING, IntegrityError):
            return False
        return digest == self.manifest.files[key]

    def _explain(self, key: str) -> IntegrityError:
        """The damaged file, the damage, and the systems whose chunks are affected."""
        name, _, chunk = key.partition("/c.")
        what, present = "does not have the content that was written", True
        try:
            self.storage.size(key)
        except MISSING:
            what, present = "is missing", False
        except IntegrityError:
            what, present = "is no regular file below the archive's folder", False
        if not chunk or not self.layout[name].by_system:
            return IntegrityError(f"{key} {what} (whole file)", remedy="copy this file again")
        systems = self.plan.systems_of(int(chunk.split(".")[0]))
        broken = [place for place in systems if not (present and self._readable(name, place))] or list(systems)
        remedy = "copy this file again, or run nipde verify --repair"
        return IntegrityError(f"{key} {what}: chunk of system {', '.join(map(str, broken))}", remedy=remedy)

    def _readable(self, name: str, system: int) -> bool:
        try:
            self._array(name)[system]
        except Exception:
            return False
        return True


def _read_manifest(storage: Storage) -> Manifest:
    try:
        data = storage.read(MANIFEST, 0, MANIFEST_BYTES + 1)
    except MISSING as error:
        got, remedy = "no archive", "check the address"
        with suppress(*MISSING):
            storage.size("zarr.json")
            got, remedy = "an unfinished one", "run the same generate command again to finish it"
        raise ArchiveError(
            f"{storage.address} has no {MANIFEST}", expected="a finished archive", got=got, remedy=remedy
        ) from error
    if len(data) > MANIFEST_BYTES:
        raise damaged(MANIFEST)
    return Manifest.from_bytes(data)
