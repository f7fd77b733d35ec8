"""The files of one archive, in a folder or an object store: read, write all or nothing, list, delete.

Object stores are reached through fsspec (`s3://bucket/prefix`, …); connections are opened per process on first use, so
a handle may be pickled to workers or cross a fork. In a folder only regular files count, and no link leads out of it.
Every failure is an ArchiveError; only where a file that is to be read is missing, it is a FileNotFoundError.
"""

import asyncio
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

import fsspec
from fsspec.implementations.local import LocalFileSystem
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import MemoryStore, WrapperStore

from nipde.atomic import atomic_file
from nipde.errors import ArchiveError, IntegrityError, NipdeError

#: Seconds that one request to an object store may take, with all attempts the library behind it makes.
PATIENCE = 60.0
#: Bytes that are read together where a whole file is digested.
PIECE_BYTES = 16 * 2**20
MISSING = (FileNotFoundError, NotADirectoryError)

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
        with _failing(os.fspath(address)):
            filesystem, root = fsspec.core.url_to_fs(os.fspath(address), **(options or {}))
        return cls(root if isinstance(filesystem, LocalFileSystem) else os.fspath(address), options or {})

    @cached_property
    def folder(self) -> Path | None:
        """The local folder; None where the place is in an object store."""
        filesystem, root = fsspec.core.url_to_fs(self.address, **self.options)
        return Path(root) if isinstance(filesystem, LocalFileSystem) else None

    def read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes of a file from `start`, counted from its end if negative, to `end`."""
        with _failing(key, passing=MISSING):
            if self.folder is None:
                return bytes(self._request("cat_file", key, start=start, end=end))
            with open(self._regular(key), "rb") as file:
                file.seek(start if start >= 0 else max(0, file.seek(0, os.SEEK_END) + start))
                return file.read(-1 if end is None else max(0, end - start))

    def size(self, key: str) -> int:
        """Bytes of a file."""
        with _failing(key, passing=MISSING):
            return (
                int(self._request("info", key)["size"]) if self.folder is None else os.path.getsize(self._regular(key))
            )

    def digest(self, key: str, size: int) -> str:
        """SHA-256 of a file, read in pieces; empty if it is not of this size."""
        if self.size(key) != size:
            return ""
        digest = hashlib.sha256()
        for start in range(0, size, PIECE_BYTES):
            digest.update(self.read(key, start, min(start + PIECE_BYTES, size)))
        return digest.hexdigest()

    def write(self, key: str, data: bytes) -> None:
        """Put a file in place whole."""
        with self.create([key]) as (sink,):
            sink.extend([data])

    @contextmanager
    def create(self, keys: list[str]) -> Iterator[list["Sink"]]:
        """Files to fill piece by piece: after a crash each is there complete, or as it was before."""
        with _failing(self.address), ExitStack() as entering:
            files = [entering.enter_context(self._new_file(key)) for key in keys]
            opened = entering.pop_all()
        try:
            yield [Sink(file) for file in files]
        except BaseException as error:
            opened.__exit__(type(error), error, error.__traceback__)
            raise
        with _failing(self.address):
            opened.close()

    def listing(self) -> list[str]:
        """Every file below this place; links are not followed."""
        with _failing(self.address):
            if self.folder is not None:
                walked = os.walk(self.folder)
                paths = (Path(folder, name) for folder, _, names in walked for name in names)
                return sorted(path.relative_to(self.folder).as_posix() for path in paths)
            try:
                found = self._request("find", "")
            except FileNotFoundError:
                return []
            root = self._connect()[1]
            return sorted(path[len(root) + 1 :] for path in found)

    def delete(self, keys: list[str]) -> None:
        """Remove files, or folders with all that is in them; those already gone are ignored."""
        for key in keys:
            with _failing(key), suppress(*MISSING):
                if self.folder is None:
                    self._request("rm", key, recursive=True)
                elif (place := self._below(key)).is_dir() and not place.is_symlink():
                    shutil.rmtree(place)
                else:
                    place.unlink()

    @contextmanager
    def _new_file(self, key: str) -> Iterator[IO[bytes]]:
        if self.folder is not None:
            place = self._below(key)
            place.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(place) as partial, open(partial, "wb") as file:
                yield file
            return
        filesystem, root = self._connect()
        remote = filesystem.open(f"{root}/{key}", "wb", autocommit=False)
        try:
            yield remote
            remote.close()
            remote.commit()  # the object appears now, whole; without a commit it never does
        except BaseException:
            with suppress(Exception):
                remote.discard()
            raise

    def _below(self, key: str) -> Path:
        """The local path of a key; an error if links lead its folder out of this one."""
        assert self.folder is not None
        place = self.folder / key
        if not place.parent.resolve().is_relative_to(self.folder.resolve()):
            raise _foreign(key)
        return place

    def _regular(self, key: str) -> str:
        """The real path of a regular file: nothing that blocks, has no end or lies elsewhere is ever opened."""
        assert self.folder is not None
        real = os.path.realpath(self.folder / key, strict=True)
        inside = real.startswith(os.path.join(os.path.realpath(self.folder), ""))
        if not (inside and stat.S_ISREG(os.stat(real).st_mode)):
            raise _foreign(key)
        return real

    def _request(self, name: str, key: str, **arguments: Any) -> Any:
        filesystem, root = self._connect()
        path = f"{root}/{key}".rstrip("/")
        if name != "cat_file":
            filesystem.invalidate_cache()  # a cached listing may hold a file that was since replaced
        if not filesystem.async_impl:
            return getattr(filesystem, name)(path, **arguments)
        request = getattr(filesystem, f"_{name}")
        return fsspec.asyn.sync(filesystem.loop, request, path, timeout=PATIENCE, **arguments)

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
            with _failing("the archive"):
                self._file.write(piece)
            self._hash.update(piece)

    @property
    def digest(self) -> str:
        """SHA-256 of everything so far."""
        return self._hash.hexdigest()


class ArchiveStore(WrapperStore[Store]):
    """What zarr sees of an archive: the metadata of its plan, and files of a known size, never a fill value."""

    def __init__(self, storage: Storage, metadata: Mapping[str, bytes], sizes: Mapping[str, int]) -> None:
        kind = default_buffer_prototype().buffer
        super().__init__(MemoryStore({key: kind.from_bytes(data) for key, data in metadata.items()}, read_only=True))
        self.storage, self.sizes = storage, sizes

    def _with_store(self, store: Store) -> "ArchiveStore":
        return self  # it can only be read

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """The bytes asked for, all of them, or an IntegrityError."""
        if key not in self.sizes:
            return await self._store.get(key, prototype, byte_range)
        size = self.sizes[key]
        start, end = _bounds(byte_range, size)
        try:
            if not 0 <= start <= end <= size:
                raise IntegrityError(f"{key} has an index that points outside it", remedy="copy the archive again")
            data = await asyncio.to_thread(self.storage.read, key, start, end + (byte_range is None))
        except MISSING:
            data = b""
        if len(data) != end - start:
            raise IntegrityError(f"{key} is missing or of another size", remedy="copy it or generate it again")
        return prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """The same of several."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]


def _bounds(request: ByteRequest | None, size: int) -> tuple[int, int]:
    """First byte and the one behind the last that a request must return."""
    match request:
        case RangeByteRequest(start, end):
            return start, end
        case OffsetByteRequest(offset):
            return offset, size
        case SuffixByteRequest(suffix):
            return size - suffix, size
    return 0, size


def _foreign(key: str) -> IntegrityError:
    return IntegrityError(
        f"{key} cannot be used", expected="a regular file below the archive's folder",
        got="another kind of file, or a link that leads elsewhere", remedy="copy the archive without links",
    )  # fmt: skip


@contextmanager
def _failing(place: str, *, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Around work on files: whatever a file system, a network or a library raises becomes an ArchiveError."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (NipdeError, *passing)):
            raise
        raise ArchiveError(
            f"{place} cannot be read or written", got=f"{type(error).__name__}: {error}"[:300],
            remedy="check address, permissions, room on the disk and connection",
        ) from error  # fmt: skip
