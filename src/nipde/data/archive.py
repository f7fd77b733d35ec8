"""A finished archive, opened for reading: systems by index, parts of the split, and proof that the bytes are intact."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import zarr
from jaxtyping import Int

from nipde.data.layout import FORMAT, FORMAT_VERSION, chunk_key, layout_of, stored
from nipde.data.manifest import MANIFEST, Manifest, sha256
from nipde.data.plan import Plan, Split, indices_of
from nipde.data.storage import Storage
from nipde.data.system import Quantities, System
from nipde.errors import ArchiveError, IntegrityError, NoSuchSystemError
from nipde.grid import Grid

#: Arrays that make up systems.
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
        attributes = self._check_metadata()
        self.plan = Plan.from_dict(attributes["plan"])
        self.grid = Grid.from_dict(attributes["grid"])
        self.quantities = Quantities.from_dict(attributes["quantities"])
        self.split: dict[str, Split] = attributes["split"]
        self.layout = layout_of(self.plan)
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
        for name in ("loads", "responses", "hidden", "parameters", "diagnostics"):
            if not np.array_equal(stored(name, kept), stored(name, again)):
                made = self.manifest.shards[place // self.plan.systems_per_shard].versions
                raise IntegrityError(
                    f"{name} of system {place} cannot be reproduced",
                    expected="the stored bits",
                    got="others",
                    remedy=f"compare versions: it was made with {made}",
                )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def _check_metadata(self) -> dict[str, Any]:
        keys = [key for key in self.manifest.fixed if key.endswith("zarr.json")]
        metadata = self.storage.read_all(keys)
        for key in keys:
            if key not in metadata or sha256(metadata[key]) != self.manifest.fixed[key]:
                state = "is damaged" if key in metadata else "is missing"
                raise IntegrityError(f"{key} {state} (metadata, all chunks)", remedy="copy the archive again")
        attributes: dict[str, Any] = json.loads(metadata["zarr.json"])["attributes"]
        if attributes.get("format") != FORMAT or attributes.get("format_version") != FORMAT_VERSION:
            raise ArchiveError(
                expected=f"{FORMAT} version {FORMAT_VERSION}",
                got=f"{attributes.get('format')} version {attributes.get('format_version')}",
                remedy="use the nipde that wrote it",
            )
        return attributes

    def _array(self, name: str) -> Any:
        """An array's handle in this process: event loops and sockets do not survive a fork."""
        if self._opened is None or self._opened[0] != os.getpid():
            store = self.storage.zarr_store(self.manifest.files)
            group = zarr.open_group(store, mode="r", zarr_format=3)
            self._opened = os.getpid(), {name: group[name] for name in BY_SYSTEM}
        return self._opened[1][name]

    def _arrays(self, systems: np.ndarray, pairs: np.ndarray | None) -> dict[str, np.ndarray]:
        """The stored arrays of ascending distinct systems."""
        arrays = {}
        for name in BY_SYSTEM:
            shared = not self.layout[name].by_system
            selection: tuple[Any, ...] = (np.zeros(1, dtype=int) if shared else systems,)
            if "pair" in self.layout[name].dimensions and pairs is not None:
                selection = (*selection, pairs)
            try:
                values = np.asarray(self._array(name).oindex[selection])
            except Exception as error:  # of any storage or codec: the bytes tell whether they are to blame
                raise self._first_damage(name, systems) from error
            arrays[name] = np.broadcast_to(values, (len(systems), *values.shape[1:])) if shared else values
        return arrays

    def _system(self, arrays: dict[str, np.ndarray], *, at: Any) -> System:
        named: dict[str, Any] = {
            name: {key: arrays[name][at][..., place] for place, key in enumerate(self.layout[name].attributes["names"])}
            for name in ("parameters", "diagnostics")
        }
        fields: dict[str, Any] = {name: arrays[name][at] for name in ("loads", "responses", "hidden", "seed")}
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
            return self.storage.digest(key) == self.manifest.files[key]
        except OSError:
            return False

    def _explain(self, key: str) -> IntegrityError:
        """The damaged file, the damage, and the systems whose chunks are affected."""
        name, _, chunk = key.partition("/c.")
        remedy = "copy this file again, or run nipde verify --repair"
        try:
            size = len(self.storage.read(key))
        except OSError:
            size = -1
        what = "is missing" if size < 0 else "does not have the content that was written"
        layout = self.layout.get(name)
        if not chunk or layout is None or not layout.by_system:
            return IntegrityError(f"{key} {what} (whole file)", remedy="copy this file again")
        systems = self.plan.systems_of(int(chunk.split(".")[0]))
        damaged = [place for place in systems if size < 0 or not self._readable(name, place)] or list(systems)
        return IntegrityError(f"{key} {what}: chunk of system {', '.join(map(str, damaged))}", remedy=remedy)

    def _readable(self, name: str, system: int) -> bool:
        try:
            self._array(name)[system]
        except Exception:
            return False
        return True


def _read_manifest(storage: Storage) -> Manifest:
    try:
        data = storage.read(MANIFEST)
    except (FileNotFoundError, NotADirectoryError) as error:
        unfinished = "zarr.json" in storage.listing()
        raise ArchiveError(
            f"{storage.address} has no {MANIFEST}",
            expected="a finished archive",
            got="an unfinished one" if unfinished else "no archive",
            remedy="run the same generate command again to finish it" if unfinished else "check the address",
        ) from error
    return Manifest.from_bytes(data)
