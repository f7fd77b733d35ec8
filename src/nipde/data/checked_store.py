"""A read-only Zarr store in which a listed file that is missing or too short is an error, never a fill value."""

from collections.abc import Collection, Iterable

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import WrapperStore

from nipde.errors import IntegrityError


class CheckedStore(WrapperStore[Store]):
    """Wraps any store; `listed` are the files that must exist."""

    def __init__(self, store: Store, listed: Collection[str] = ()) -> None:
        super().__init__(store)
        self.listed = listed

    def _with_store(self, store: Store) -> "CheckedStore":
        return CheckedStore(store, self.listed)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """The bytes asked for, all of them."""
        buffer = await self._store.get(key, prototype, byte_range)
        if key in self.listed:
            if buffer is None:
                raise IntegrityError(f"{key} is missing", remedy="copy it again or generate the archive again")
            if len(buffer) < _least(byte_range):
                raise IntegrityError(f"{key} is cut short", remedy="copy it again or generate the archive again")
        return buffer

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Several ranges, each checked."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]


def _least(byte_range: ByteRequest | None) -> int:
    if isinstance(byte_range, RangeByteRequest):
        return byte_range.end - byte_range.start
    if isinstance(byte_range, SuffixByteRequest):
        return byte_range.suffix
    assert byte_range is None or isinstance(byte_range, OffsetByteRequest)
    return 1
