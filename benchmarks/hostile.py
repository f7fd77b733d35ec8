"""Mutated descriptions, units, records of weights, checkpoints, manifests and results: what becomes of each.

Each has to end in a typed error or a result, within the time allowed. Mutations are of two kinds: values of a parsed
document replaced by hostile ones, and bytes changed, cut, repeated or put in.
"""

import copy
import json
import math
import random
import signal
import string
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.record import digest, read_record
from nipde.data.archive import open_archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.manifest import MANIFEST, sha256
from nipde.data.plan import Plan
from nipde.errors import NipdeError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.measurements.description import Description
from nipde.measurements.units import Units
from nipde.weights import checkpoint, load, save

SEED = 22
#: Inputs of a full run and of a quick one, and the seconds that one may take.
INPUTS, QUICK_INPUTS, SECONDS = 100_000, 2_000, 5
#: What values of a document are replaced by.
HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 30_000, 10**9, 10**18, 2**63, -(2**63), 10**400, 0.0, -0.0, 1.5, 1e308, -1e-308,
    math.nan, math.inf, "", "x", "dirichlet", "9" * 5000, "../../etc/hostname", "/dev/zero", "a\0b", "\ud800",
    "é" * 300, "__class__", "float16", "nan", "1e999", [], [[]], [None], [0] * 1000, [1, "a"], {}, {"a": 1},
    {"": {"": {}}},
)  # fmt: skip
#: Parts that hostile units are put together from.
UNIT_PARTS = ("m", "mm", "N", "kPa", "px", "degC", "9", "1e9", "0", "²", "³", "^", "**", "*", "/", "(", ")", " ", ".",
              "-", "µ", "%", "e", "1/", "2**", "9^", "²²²", "__import__", "delta_degC", "\0", "[", "]")  # fmt: skip
DESCRIPTION = """
files = ["measured.csv"]
response = ["u"]
nodes = [21, 21]
box = [[0.0, 10.0], [0.0, 5.0]]
boundary = "dirichlet"
noise = "0.2 %"
missing = [-999.0]
rigid_motion = false

[units]
x = "mm"
response = "mm"
load = "N/mm^2"

[[loads]]
kind = "gaussian"
centre = [5.0, 2.5]
width = 1.0
amplitude = "12 kPa"
"""


def measure(*, quick: bool) -> dict[str, Any]:
    """How many inputs of each kind ended in which way, and the first of those that ended badly."""
    with tempfile.TemporaryDirectory() as folder:
        return run(QUICK_INPUTS if quick else INPUTS, Path(folder))


def run(inputs: int, folder: Path, *, seed: int = SEED) -> dict[str, Any]:
    """So many inputs, shared out among the kinds."""
    kinds = targets(folder)
    rows = []
    for number, (kind, attack) in enumerate(kinds.items()):
        rng, ends, bad, slowest = random.Random(f"{seed} {kind}"), Counter[str](), [], 0.0
        for _ in range(inputs // len(kinds) + (number < inputs % len(kinds))):
            start = time.monotonic()
            end, what = outcome(partial(attack, rng))
            slowest = max(slowest, time.monotonic() - start)
            ends[end] += 1
            if end not in ("result", "typed error"):
                bad.append(f"{end}: {what}")
        rows.append({"kind": kind, "inputs": ends.total(), **{name: ends[name] for name in ENDS},
                     "slowest_seconds": round(slowest, 2), "bad": bad[:20]})  # fmt: skip
    return {"inputs": inputs, "seconds_allowed": SECONDS, "rows": rows}


#: How an input may end; the first two are right.
ENDS = ("result", "typed error", "untyped error", "hang")


def outcome(attack: Callable[[], object]) -> tuple[str, str]:
    """How a call ends, and with which error."""
    try:
        with at_most(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attack()
    except NipdeError as error:
        return "typed error", type(error).__name__
    except Hang:
        return "hang", f"more than {SECONDS} s"
    except Exception as error:
        return "untyped error", f"{type(error).__name__}: {str(error)[:200]}"
    return "result", ""


class Hang(BaseException):
    """Nothing that is tried here catches it."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `Hang` in the block after so many seconds."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def targets(folder: Path) -> dict[str, Callable[[random.Random], object]]:
    """What reads an input of each kind, made from good ones in `folder`."""
    weights, archive, results = folder / "weights.safetensors", folder / "archive", folder / "results"
    save(ConditionedNIPS(prior="elliptic", dimension=2, channels=4), weights)
    tensors, record = checkpoint.load(weights)
    good = weights.read_bytes()
    generate(Plan(DarcyRecipe(nodes=7, pairs=4), systems=4, split=(0.5, 0.25, 0.25)), archive, workers=1)
    manifest = archive / MANIFEST
    listed = json.loads(manifest.read_bytes())
    documents = sorted(archive.rglob("zarr.json"))
    results.mkdir()
    measured = {"name": "trial", "measured": {"rows": [{"value": 1.0}]}}
    description = folder / "experiment.toml"

    def mutated_weights(rng: random.Random) -> object:
        checkpoint.save(folder / "mutated.safetensors", tensors, replaced(record, rng))
        return load(folder / "mutated.safetensors")

    def mutated_checkpoint(rng: random.Random) -> object:
        (folder / "mutated.safetensors").write_bytes(changed(good, rng, among=3000))
        return load(folder / "mutated.safetensors")

    def opened(path: Path, text: bytes, listing: bytes) -> object:
        kept = path.read_bytes(), manifest.read_bytes()
        path.write_bytes(text)
        manifest.write_bytes(listing)
        try:
            archived = open_archive(archive)
            archived.verify()
            return archived.read(range(2))
        finally:
            path.write_bytes(kept[0])
            manifest.write_bytes(kept[1])

    def mutated_manifest(rng: random.Random) -> object:
        text = changed(manifest.read_bytes(), rng) if rng.random() < 0.2 else signed(replaced(listed, rng))
        return opened(manifest, text, text)

    def mutated_attributes(rng: random.Random) -> object:
        """Listed in the manifest as they are."""
        path = rng.choice(documents)
        text, listing = mutated_json(path.read_bytes(), rng), copy.deepcopy(listed)
        listing["fixed"][path.relative_to(archive).as_posix()] = sha256(text)
        return opened(path, text, signed(listing))

    def mutated_description(rng: random.Random) -> object:
        description.write_bytes(changed(DESCRIPTION.encode(), rng))
        return Description.from_toml(description)

    def mutated_result(rng: random.Random) -> object:
        mutated = replaced(measured, rng)
        if isinstance(mutated, dict):
            mutated["sha256"] = digest(mutated)
        text = json.dumps(mutated).encode()
        (results / "trial.json").write_bytes(changed(text, rng) if rng.random() < 0.5 else text)
        return read_record(results, "trial")

    return {
        "units": lambda rng: Units(length="m", load=unit(rng), response=unit(rng)).coefficient,
        "descriptions, text": mutated_description,
        "descriptions, values": lambda rng: Description.from_dict(replaced(DESCRIBED, rng)),
        "records of weights": mutated_weights,
        "checkpoints": mutated_checkpoint,
        "manifests": mutated_manifest,
        "attributes": mutated_attributes,
        "results": mutated_result,
    }


#: The description as TOML holds it.
DESCRIBED = {
    "files": ["measured.csv"], "response": ["u"], "nodes": [21, 21], "box": [[0.0, 10.0], [0.0, 5.0]], "noise": "0.2 %",
    "boundary": "dirichlet", "missing": [-999.0], "rigid_motion": False, "units": {"x": "mm", "load": "N/mm^2"},
    "loads": [{"kind": "gaussian", "centre": [5.0, 2.5], "width": 1.0, "amplitude": "12 kPa"}], "axes": "yx",
    "scale": "0.05 mm/px", "amounts": "table.csv",
}  # fmt: skip


def unit(rng: random.Random) -> str:
    """A unit that somebody might write, or one that nobody would."""
    if rng.random() < 0.3:
        return rng.choice(UNIT_PARTS[:6]) + "".join(
            rng.choice(["*", "/", "^2 ", "·", " "]) + rng.choice(UNIT_PARTS[:6]) for _ in range(rng.randint(0, 4))
        )
    return "".join(rng.choice(UNIT_PARTS) for _ in range(rng.randint(1, 14)))


def signed(body: Any) -> bytes:
    """A manifest with the digests that its content has, if it can have any."""
    try:
        files = {**body["fixed"], **{key: value for shard in body["shards"] for key, value in shard["files"].items()}}
        body["digest"] = sha256(canonical(files))
        body.pop("checksum", None)
        body["checksum"] = sha256(canonical(body))
    except (TypeError, KeyError, AttributeError):
        pass
    return canonical(body)


def canonical(document: Any) -> bytes:
    """As manifests are written."""
    return json.dumps(document, sort_keys=True, indent=1).encode()


def mutated_json(text: bytes, rng: random.Random) -> bytes:
    """A document with other values, or other bytes."""
    if rng.random() < 0.5:
        return changed(text, rng)
    return json.dumps(replaced(json.loads(text), rng)).encode("utf-8", "surrogatepass")


def replaced(document: Any, rng: random.Random) -> Any:
    """A copy in which one to three values or keys are hostile."""
    made = copy.deepcopy(document)
    for _ in range(rng.randint(1, 3)):
        made = _replaced_once(made, rng)
    return made


def _replaced_once(node: Any, rng: random.Random) -> Any:
    if isinstance(node, dict) and node and rng.random() < 0.85:
        key = rng.choice(list(node))
        how = rng.random()
        if how < 0.1:
            del node[key]
        elif how < 0.2:
            node["".join(rng.choices(string.printable, k=3))] = copy.deepcopy(rng.choice(HOSTILE))
        else:
            node[key] = _replaced_once(node[key], rng)
        return node
    if isinstance(node, list) and node and rng.random() < 0.85:
        place = rng.randrange(len(node))
        node[place] = _replaced_once(node[place], rng)
        return node
    return copy.deepcopy(rng.choice(HOSTILE))


def changed(data: bytes, rng: random.Random, *, among: int | None = None) -> bytes:
    """Bytes changed, cut, repeated or put in, among the first `among` of them."""
    made = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(max(1, min(len(made), among or len(made))))
        how = rng.randrange(5)
        if how == 0:
            made[place : place + 1] = bytes([rng.randrange(256)])
        elif how == 1:
            del made[place : place + rng.randint(1, 40)]
        elif how == 2:
            made[place:place] = made[place : place + rng.randint(1, 40)] * rng.randint(1, 20)
        elif how == 3:
            made[place:place] = rng.choice(
                [b"[" * 5000, b"9" * 6000, b"a." * 3000, b"\0", b"\xff\xfe", b'"', b"=", b"{" * 99]
            )
        else:
            del made[place:]
    return bytes(made)
