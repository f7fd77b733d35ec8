"""The list of every file of an archive with its SHA-256, written last: an archive without one is not finished."""

import hashlib
import json
import platform
import re
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from importlib.metadata import version
from typing import Any, Self

from nipde.data.checked_json import conforms, damaged, parsed

MANIFEST = "manifest.json"
#: Bytes that a manifest may have.
MANIFEST_BYTES = 32 * 2**20
PROGRESS = "progress"
#: The line of a manifest that its own checksum leaves out.
_CHECKSUM = re.compile(rb'^ "checksum": "([0-9a-f]{64})",\n', re.MULTILINE)


@dataclass(frozen=True)
class ShardRecord:
    """One finished shard: its files' digests, and what made them."""

    shard: int
    files: dict[str, str]
    versions: dict[str, str]
    #: While in progress: digest of the files of no shard (plan, shared loads), so that no other archive takes it.
    fixed: str = ""

    @property
    def key(self) -> str:
        """Where the record waits for the manifest."""
        return f"{PROGRESS}/{self.shard:08d}.json"

    def to_bytes(self) -> bytes:
        """File content."""
        return _canonical(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read back; an IntegrityError on anything unexpected."""
        record = parsed(data, PROGRESS, dict[str, dict[str, str] | int | str])
        kinds = {"shard": int, "files": dict, "versions": dict, "fixed": str}
        if {name: type(value) for name, value in record.items()} != kinds:
            raise damaged(PROGRESS)
        return cls(**record)


@dataclass(frozen=True)
class Manifest:
    """Digests of all files, and what computed them; `digest` names the content."""

    fixed: dict[str, str]
    shards: list[ShardRecord] = field(default_factory=list)

    @cached_property
    def files(self) -> dict[str, str]:
        """Every file and its digest."""
        return {**self.fixed, **{key: value for record in self.shards for key, value in record.files.items()}}

    @cached_property
    def digest(self) -> str:
        """One SHA-256 for the content: all files, but not what computed them."""
        return digest_of(self.files)

    def to_bytes(self) -> bytes:
        """File content: the body, the content's digest, and a checksum over both."""
        body = {**self._body(), "digest": self.digest}
        return _canonical({**body, "checksum": sha256(_canonical(body))})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read back; an IntegrityError unless every byte is as it was written, and of every part the type."""
        line = _CHECKSUM.search(data)
        if line is None or sha256(data[: line.start()] + data[line.end() :]).encode() != line[1]:
            raise damaged(MANIFEST)
        body = parsed(data, MANIFEST)
        fixed, builds, shards = (body.get(name) for name in ("fixed", "builds", "shards"))
        texts = dict[str, str]
        forms = texts, list[texts], list[dict[str, texts | int]]
        if not (len(body) == 5 and all(map(conforms, (fixed, builds, shards), forms))):
            raise damaged(MANIFEST)
        records = []
        for place, shard in enumerate(shards):
            files, build = shard.get("files"), shard.get("build")
            if not (isinstance(files, dict) and isinstance(build, int) and 0 <= build < len(builds)):
                raise damaged(MANIFEST)
            records.append(ShardRecord(place, files, builds[build]))
        return cls(fixed, records)

    def _body(self) -> dict[str, Any]:
        builds: list[dict[str, str]] = []
        shards = []
        for record in self.shards:
            if record.versions not in builds:
                builds.append(record.versions)
            shards.append({"files": record.files, "build": builds.index(record.versions)})
        return {"builds": builds, "fixed": self.fixed, "shards": shards}


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


def digest_of(files: dict[str, str]) -> str:
    """One SHA-256 for files and their digests."""
    return sha256(_canonical(files))


@lru_cache(maxsize=8)
def versions(*beyond: str) -> dict[str, str]:
    """What computed a shard; `beyond`: what else a recipe's solver stands on."""
    names = ("nipde", "numpy", "scipy", "zarr", *beyond)
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def _canonical(record: dict[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True, indent=1).encode()
