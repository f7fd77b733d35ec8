"""The files of one archive, in a folder or an object store: read, write all or nothing, list, delete.

Every address goes through fsspec (`path`, `s3://bucket/prefix`, …). Connections are opened per process on first
use, so a handle may be pickled to workers or cross a fork.
"""

import hashlib
import os
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any, Self

import fsspec
from fsspec.implementations.local import LocalFileSystem
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import FsspecStore, LocalStore, WrapperStore

from nipde.errors import IntegrityError

PARTIAL = ".partial"

#: Anything that exports its bytes; Python has a name for that from 3.12 on.
Piece = Any


@dataclass(frozen=True)
class Storage:
    """One folder-like place; `options` go to fsspec (credentials, endpoint)."""

    address: str
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, address: str | os.PathLike[str], options: dict[str, Any] | None = None) -> Self:
        """A place by its address; a local one is made absolute, for workers that stand in another folder."""
        filesystem, root = fsspec.core.url_to_fs(os.fspath(address), **(options or {}))
        return cls(root if isinstance(filesystem, LocalFileSystem) else os.fspath(address), options or {})

    def read(self, key: str) -> bytes:
        """All bytes of a file; FileNotFoundError if there is none."""
        filesystem, root = self._connect()
        return bytes(filesystem.cat_file(f"{root}/{key}"))

    def read_all(self, keys: list[str]) -> dict[str, bytes]:
        """Several small files at once; missing ones are left out."""
        filesystem, root = self._connect()
        paths = {f"{root}/{key}": key for key in keys}
        contents = filesystem.cat(list(paths), on_error="return")
        missing = (FileNotFoundError, NotADirectoryError)
        for error in contents.values():
            if isinstance(error, Exception) and not isinstance(error, missing):
                raise error
        return {key: bytes(contents[path]) for path, key in paths.items() if isinstance(contents.get(path), bytes)}

    def digest(self, key: str) -> str:
        """SHA-256 of a file, read in pieces."""
        filesystem, root = self._connect()
        filesystem.invalidate_cache()  # a cached listing may hold a file that was since replaced
        with filesystem.open(f"{root}/{key}", "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def write(self, key: str, data: bytes) -> None:
        """Put a file in place whole."""
        with self.create([key]) as (sink,):
            sink.extend([data])

    @contextmanager
    def create(self, keys: list[str]) -> Iterator[list["Sink"]]:
        """Files to fill piece by piece: after a crash each is there complete, or as it was before."""
        filesystem, root = self._connect()
        paths = [f"{root}/{key}" for key in keys]
        local = isinstance(filesystem, LocalFileSystem)
        with ExitStack() as opened:
            if local:
                yield from _local_files(paths, opened)
                return
            files = [opened.enter_context(filesystem.open(path, "wb", autocommit=False)) for path in paths]
            yield [Sink(file) for file in files]
        for file in files:
            file.commit()  # the object appears now, whole; without a commit it never does

    def listing(self) -> list[str]:
        """Every file below this place."""
        filesystem, root = self._connect()
        filesystem.invalidate_cache()
        try:
            paths = filesystem.find(root)
        except FileNotFoundError:
            return []
        return sorted(path[len(root) + 1 :] for path in paths)

    def delete(self, keys: list[str]) -> None:
        """Remove files, or folders with all that is in them; those already gone are ignored."""
        filesystem, root = self._connect()
        for key in keys:
            try:
                filesystem.rm(f"{root}/{key}", recursive=True)
            except FileNotFoundError:
                continue

    def zarr_store(self, listed: Collection[str]) -> Store:
        """Read-only view for zarr; the `listed` files must exist."""
        filesystem, root = self._connect()
        if isinstance(filesystem, LocalFileSystem):
            return _CheckedStore(LocalStore(root, read_only=True), listed)
        store = FsspecStore.from_url(self.address, storage_options=self.options, read_only=True)
        return _CheckedStore(store, listed)

    def _connect(self) -> tuple[Any, str]:
        # fsspec keeps one connection per process and options, and forgets those of the parent after a fork.
        filesystem, root = fsspec.core.url_to_fs(self.address, **self.options)
        return filesystem, root.rstrip("/")


class Sink:
    """An open file that digests what it is given."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def extend(self, pieces: Iterable[Piece]) -> None:
        """Append bytes."""
        for piece in pieces:
            self._file.write(piece)
            self._hash.update(piece)

    @property
    def digest(self) -> str:
        """SHA-256 of everything so far."""
        return self._hash.hexdigest()


class _CheckedStore(WrapperStore[Store]):
    """A listed file that is missing or too short is an error, never a fill value."""

    def __init__(self, store: Store, listed: Collection[str] = ()) -> None:
        super().__init__(store)
        self.listed = listed

    def _with_store(self, store: Store) -> "_CheckedStore":
        return _CheckedStore(store, self.listed)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        buffer = await self._store.get(key, prototype, byte_range)
        if key in self.listed and (buffer is None or len(buffer) < _least(byte_range)):
            state = "missing" if buffer is None else "cut short"
            raise IntegrityError(f"{key} is {state}", remedy="copy it again or generate the archive again")
        return buffer

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]


def _least(byte_range: ByteRequest | None) -> int:
    """Bytes that a request must return."""
    if isinstance(byte_range, RangeByteRequest):
        return byte_range.end - byte_range.start
    return byte_range.suffix if isinstance(byte_range, SuffixByteRequest) else 1


def _local_files(paths: list[str], opened: ExitStack) -> Iterator[list[Sink]]:
    """Written to partial files in the same folders, synced, and renamed."""
    folders = [os.path.dirname(path) for path in paths]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    partial = [os.path.join(folder, f".{uuid.uuid4().hex}{PARTIAL}") for folder in folders]
    try:
        files = [opened.enter_context(open(path, "wb")) for path in partial]  # noqa: SIM115
        yield [Sink(file) for file in files]
        for file in files:
            file.flush()
            os.fsync(file.fileno())
        for source, path in zip(partial, paths, strict=True):
            os.replace(source, path)
        for folder in dict.fromkeys(folders):
            _sync_folder(folder)
    except BaseException:
        for path in partial:
            with suppress(FileNotFoundError):
                os.unlink(path)
        raise


def _sync_folder(folder: str) -> None:
    """Make a rename in the folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
