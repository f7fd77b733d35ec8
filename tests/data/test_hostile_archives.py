"""Archives that someone crafted: each is refused with a typed error or read right, and nothing hangs."""

import json
import os
import shutil
import time
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

from nipde.data.archive import BY_SYSTEM, open_archive
from nipde.data.generation import generate
from nipde.data.layout import stored
from nipde.data.manifest import MANIFEST_BYTES, Manifest, ShardRecord, digest_of, sha256
from nipde.data.plan import MOST_SHARDS, Plan
from nipde.errors import ArchiveError, IntegrityError

SHARD = "responses/c.0.0.0.0.0"
ZEROS = "0" * 64
INKY = "\x1b]0;title\x07<script>"

pytestmark = pytest.mark.timeout(60)


def canonical(record):
    return json.dumps(record, sort_keys=True, indent=1).encode()


def sign(folder, body):
    """Write a manifest whose digest and checksum fit, whatever it says."""
    body = {key: value for key, value in body.items() if key not in ("digest", "checksum")}
    try:
        files = {**body["fixed"], **{key: value for shard in body["shards"] for key, value in shard["files"].items()}}
    except (TypeError, AttributeError, KeyError):
        files = {}
    body["digest"] = sha256(canonical(files))
    (folder / "manifest.json").write_bytes(canonical({**body, "checksum": sha256(canonical(body))}))


def manifest(change):
    """A crafted archive: its manifest changed and signed again."""

    def craft(folder):
        body = json.loads((folder / "manifest.json").read_text())
        sign(folder, change(body, folder) or body)

    return craft


def listed(*keys, digest=ZEROS):
    return manifest(lambda body, _: body["fixed"].update(dict.fromkeys(keys, digest)))


def fewer(key, *, gone):
    def change(body, folder):
        for files in (body["fixed"], *(shard["files"] for shard in body["shards"])):
            files.pop(key, None)
        if gone:
            (folder / key).unlink()

    return manifest(change)


def swapped(body, _):
    first, second = body["shards"][:2]
    first["files"][SHARD], second["files"][SHARD] = second["files"].pop(SHARD.replace("c.0", "c.1")), ZEROS


def raw(data):
    return lambda folder: (folder / "manifest.json").write_bytes(data)


def rewritten(key, change):
    """One file of metadata changed, and its digest in the manifest with it."""

    def craft(folder):
        record = json.loads((folder / key).read_text())
        changed = change(record)
        data = changed if isinstance(changed, bytes) else json.dumps(record).encode()
        (folder / key).write_bytes(data)
        body = json.loads((folder / "manifest.json").read_text())
        body["fixed"][key] = sha256(data)
        sign(folder, body)

    return craft


def attributes(change):
    return rewritten("zarr.json", lambda record: change(record["attributes"]))


def plan_with(**values):
    return attributes(lambda record: record["plan"].update(values))


def recipe_with(**values):
    return attributes(lambda record: record["plan"]["recipe"].update(values))


def array(change):
    return rewritten("hidden/zarr.json", change)


def replaced(key, put):
    """A file that is taken away, and what stands in its place."""

    def craft(folder):
        place = folder / key
        kept = folder.parent / "outside"
        shutil.move(place, kept)
        put(place, kept)

    return craft


def fifo(place, _):
    os.mkfifo(place)


def link_to(target):
    return lambda place, kept: place.symlink_to(kept if target is None else target)


def loop(place, _):
    place.symlink_to(place.name)


def sparse(place, _):
    with place.open("wb") as file:
        file.truncate(2**40)


def index_with(offset, length):
    """A shard whose index, checksum and digest included, points where nothing is."""

    def craft(folder):
        data = (folder / SHARD).read_bytes()
        index = np.frombuffer(data[-4 * 16 - 4 : -4], dtype="<u8").copy()
        index[:2] = offset, length
        data = data[: -4 * 16 - 4] + index.tobytes() + google_crc32c.value(index.tobytes()).to_bytes(4, "little")
        (folder / SHARD).write_bytes(data)
        body = json.loads((folder / "manifest.json").read_text())
        body["shards"][0]["files"][SHARD] = sha256(data)
        sign(folder, body)

    return craft


PICKLE = [{"name": "numcodecs.pickle", "configuration": {}}]
GZIP = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}]
HUGE_GRID = {"axes": [{"nodes": 10**9, "length": 1.0, "boundary": "dirichlet"}] * 2}

#: An archive that `verify` must not call intact, and that is not read to other values.
REFUSED = {
    "manifest lists fewer files, which are gone": fewer(SHARD, gone=True),
    "manifest lists fewer files, which stay": fewer(SHARD, gone=False),
    "manifest lists no coordinates": fewer("x/c.0", gone=True),
    "manifest lists no metadata": fewer("hidden/zarr.json", gone=False),
    "manifest lists no root": fewer("zarr.json", gone=False),
    "manifest lists a file outside": lambda folder: (
        (folder.parent / "outside.txt").write_bytes(b"secret"),
        listed("../outside.txt", digest=sha256(b"secret"))(folder),
    ),
    "manifest lists a file outside, digest wrong": listed("../outside.txt"),
    "manifest lists an absolute path": listed("/etc/passwd"),
    "manifest lists metadata outside": listed("../../../etc/hostname/zarr.json"),
    "manifest lists a backslash": listed("..\\outside.txt"),
    "manifest lists NUL": listed("loads/c.0\0"),
    "manifest lists an empty name": listed(""),
    "manifest lists a device": listed("/dev/zero"),
    "manifest lists itself": listed("manifest.json"),
    "manifest without shards": manifest(lambda body, _: body.update(shards=[])),
    "manifest without its last shard": manifest(lambda body, _: body["shards"].pop()),
    "manifest with a shard twice": manifest(lambda body, _: body["shards"].append(body["shards"][0])),
    "manifest with shards in another order": manifest(lambda body, _: body["shards"].reverse()),
    "manifest with files in another shard": manifest(swapped),
    "manifest with 2,000 shards": manifest(lambda body, _: body.update(shards=body["shards"][:1] * 2000)),
    "build below zero": manifest(lambda body, _: body["shards"][0].update(build=-1)),
    "build beyond": manifest(lambda body, _: body["shards"][0].update(build=10**9)),
    "build a truth value": manifest(lambda body, _: body["shards"][0].update(build=True)),
    "build a text": manifest(lambda body, _: body["shards"][0].update(build="0")),
    "build a list": manifest(lambda body, _: body["shards"][0].update(build=[0])),
    "digests are numbers": manifest(lambda body, _: body["fixed"].update({"zarr.json": 5})),
    "digests are null": manifest(lambda body, _: body["shards"][0]["files"].update({SHARD: None})),
    "fixed a list": manifest(lambda body, _: body.update(fixed=[])),
    "fixed missing": manifest(lambda body, _: body.pop("fixed") and None),
    "shards a table": manifest(lambda body, _: body.update(shards={})),
    "shards of numbers": manifest(lambda body, _: body.update(shards=[1, 2, 3])),
    "builds of numbers": manifest(lambda body, _: body.update(builds=[1])),
    "builds of versions that are numbers": manifest(lambda body, _: body.update(builds=[{"python": 3}])),
    "manifest with another key": manifest(lambda body, _: body.update(more=1)),
    "manifest empty": raw(b""),
    "manifest a list": raw(b"[]"),
    "manifest null": raw(b"null"),
    "manifest of nested lists": raw(b"[" * 200_000),
    "manifest of nested tables": raw(b'{"a":' * 200_000),
    "manifest not UTF-8": raw(b"\xff\xff"),
    "manifest in UTF-16": raw('{"builds": []}'.encode("utf-16")),
    "manifest with a number of 5,000 digits": raw(b'{"builds":[],"fixed":{},"shards":[' + b"9" * 5000 + b"]}"),
    "manifest with NaN": raw(b'{"builds":[NaN],"fixed":{},"shards":[]}'),
    "manifest with infinity": raw(b'{"builds":[-Infinity],"fixed":{},"shards":[]}'),
    "manifest with a key twice": raw(b'{"builds":[],"fixed":{},"fixed":{},"shards":[]}'),
    "manifest of a million lists": raw(b'{"builds":[],"fixed":{},"shards":[' + b"[]," * 10**6 + b"[]]}"),
    "manifest with bytes behind it": lambda folder: raw((folder / "manifest.json").read_bytes() + b"\n")(folder),
    "manifest of a terabyte": replaced("manifest.json", sparse),
    "manifest a FIFO": replaced("manifest.json", fifo),
    "manifest a device": replaced("manifest.json", link_to("/dev/zero")),
    "manifest a folder": replaced("manifest.json", lambda place, _: place.mkdir()),
    "manifest a link outside": replaced("manifest.json", link_to(None)),
    "root a FIFO": replaced("zarr.json", fifo),
    "root of a terabyte": replaced("zarr.json", sparse),
    "array metadata a FIFO": replaced("seed/zarr.json", fifo),
    "array metadata a device": replaced("seed/zarr.json", link_to("/dev/zero")),
    "shard a FIFO": replaced(SHARD, fifo),
    "shard a device": replaced(SHARD, link_to("/dev/zero")),
    "shard a terminal": replaced(SHARD, link_to("/dev/tty")),
    "shard a link outside": replaced(SHARD, link_to(None)),
    "shard a link to itself": replaced(SHARD, loop),
    "shard a link to nothing": replaced(SHARD, link_to("nothing")),
    "shard a folder": replaced(SHARD, lambda place, _: place.mkdir()),
    "shard of a terabyte": replaced(SHARD, sparse),
    "shard empty": replaced(SHARD, lambda place, _: place.touch()),
    "seeds of a terabyte": replaced("seed/c.0", sparse),
    "coordinates a FIFO": replaced("x/c.0", fifo),
    "folder of an array a link outside": replaced("responses", link_to(None)),
    "10^12 systems": plan_with(systems=10**12),
    "10^9 systems": plan_with(systems=10**9),
    "more systems than stored": plan_with(systems=11),
    "no systems": plan_with(systems=0),
    "systems below zero": plan_with(systems=-5),
    "systems true": plan_with(systems=True),
    "systems a text": plan_with(systems="10"),
    "systems a fraction": plan_with(systems=10.5),
    "seed below zero": plan_with(seed=-1),
    "seed of 400 digits": plan_with(seed=10**400),
    "another shard size": plan_with(shard_systems=5),
    "shard size below zero": plan_with(shard_systems=-1),
    "split a text": plan_with(split="x"),
    "split of four": plan_with(split=[0.5, 0.3, 0.1, 0.1]),
    "split with NaN": plan_with(split=[float("nan"), 0.5, 0.5]),
    "split with 1e999": attributes(
        lambda record: json.dumps({"attributes": record}).replace("0.8", "1e999").encode(),
    ),
    "plan missing": attributes(lambda record: record.pop("plan") and None),
    "plan null": attributes(lambda record: record.update(plan=None)),
    "plan with another key": plan_with(more=1),
    "recipe null": plan_with(recipe=None),
    "recipe of a module": recipe_with(problem="os.system"),
    "recipe a list": recipe_with(problem=[1]),
    "recipe without a name": attributes(lambda record: record["plan"]["recipe"].pop("problem") and None),
    "recipe with another option": recipe_with(__class__="x"),
    "10^9 pairs": recipe_with(pairs=10**9),
    "no pairs": recipe_with(pairs=0),
    "pairs a table": recipe_with(pairs={}),
    "10^6 nodes": recipe_with(nodes=10**6),
    "2 nodes": recipe_with(nodes=2),
    "nodes a text": recipe_with(nodes="11"),
    "nodes a list": recipe_with(nodes=[11, 11]),
    "precision float16": recipe_with(precision="float16"),
    "precision a list": recipe_with(precision=["float32"]),
    "phases a text": recipe_with(phases="ab"),
    "three phases": recipe_with(phases=[1.0, 2.0, 3.0]),
    "grid of 10^18 nodes": attributes(lambda record: record.update(grid=HUGE_GRID)),
    "grid missing": attributes(lambda record: record.pop("grid") and None),
    "split of the root a text": attributes(lambda record: record.update(split="x")),
    "no quantities": attributes(lambda record: record.update(quantities={})),
    "quantities that write to terminals": attributes(lambda record: record["quantities"]["load"].update(name=INKY)),
    "attributes a list": rewritten("zarr.json", lambda record: record.update(attributes=[])),
    "attributes missing": rewritten("zarr.json", lambda record: record.pop("attributes") and None),
    "another format": attributes(lambda record: record.update(format="x")),
    "format a list": attributes(lambda record: record.update(format=[])),
    "root nested": rewritten("zarr.json", lambda record: b'{"attributes":' * 100_000),
    "root not JSON": rewritten("zarr.json", lambda record: b"\x00"),
    "codec gzip": array(lambda record: record.update(codecs=GZIP)),
    "codec pickle": array(lambda record: record.update(codecs=PICKLE)),
    "codec of a module": array(lambda record: record.update(codecs=[{"name": "os.system", "configuration": {}}])),
    "codecs a number": array(lambda record: record.update(codecs=5)),
    "numbers of objects": array(lambda record: record.update(data_type="object")),
    "array of 10^12 systems": array(lambda record: record["shape"].__setitem__(0, 10**12)),
    "chunks of 10^9": array(lambda record: record["chunk_grid"]["configuration"]["chunk_shape"].__setitem__(0, 10**9)),
    "shape a text": array(lambda record: record.update(shape="ab")),
    "other axes": array(lambda record: record["dimension_names"].reverse()),
    "another unit": array(lambda record: record["attributes"].update(unit="kPa")),
    "array metadata nested": array(lambda record: b'{"shape":' * 100_000),
    "array metadata a list": array(lambda record: b"[]"),
}

#: What does not belong to an archive is not looked at.
HARMLESS = {
    "FIFO beside the arrays": lambda folder: ((folder / "more").mkdir(), os.mkfifo(folder / "more" / "zarr.json")),
    "FIFO beside the shards": lambda folder: os.mkfifo(folder / "loads" / "c.9.0.0.0.0"),
    "folder that holds itself": lambda folder: (folder / "again").symlink_to(folder),
    "link within": lambda folder: (
        shutil.move(folder / SHARD, folder / "kept"),
        (folder / SHARD).symlink_to(folder / "kept"),
    ),
    "another attribute": attributes(lambda record: record.update(more=INKY)),
}


def values(archive):
    systems = archive[:]
    return [stored(name, systems) for name in BY_SYSTEM]


@pytest.fixture(scope="module")
def right(made):
    return values(open_archive(made))


@pytest.mark.parametrize("craft", REFUSED.values(), ids=REFUSED)
def test_a_crafted_archive_is_refused(craft, copy, right):
    craft(copy)
    begun = time.process_time()
    with pytest.raises(ArchiveError):
        open_archive(copy, verify=True)
    try:
        read = values(open_archive(copy))
    except ArchiveError:
        read = right
    assert all(map(np.array_equal, read, right))
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("craft", HARMLESS.values(), ids=HARMLESS)
def test_what_does_not_belong_to_an_archive_is_not_looked_at(craft, copy, right):
    craft(copy)
    assert all(map(np.array_equal, values(open_archive(copy, verify=True)), right))


def test_content_and_digests_replaced_together_are_found_by_computing_again(copy):
    data = bytearray((copy / SHARD).read_bytes())
    count = 6 * 11 * 11 * 4
    doubled = (2 * np.frombuffer(data[:count], dtype="<f4")).tobytes()
    data[: count + 4] = doubled + google_crc32c.value(doubled).to_bytes(4, "little")
    (copy / SHARD).write_bytes(data)
    manifest(lambda body, _: body["shards"][0]["files"].update({SHARD: sha256(bytes(data))}))(copy)
    archive = open_archive(copy, verify=True)
    with pytest.raises(IntegrityError):
        archive.rebuild(0)


@pytest.mark.parametrize("entry", [(2**40, 100), (0, 2**40), (0, 8), (2**64 - 2, 2**64 - 2), (2**63, 2**63)])
def test_an_index_that_points_elsewhere_is_refused(entry, copy):
    index_with(*entry)(copy)
    with pytest.raises(ArchiveError):
        open_archive(copy)[0]


def test_the_longest_manifest_fits_its_bound():
    keys = [f"{name}/c.{MOST_SHARDS}.0.0.0.0.0" for name in BY_SYSTEM]
    few = Manifest({}, [ShardRecord(0, dict.fromkeys(keys, ZEROS), {})] * 100)
    assert len(few.to_bytes()) / 100 * MOST_SHARDS < MANIFEST_BYTES


def unfinished(folder, plan):
    """The archive as a run that is not finished leaves it."""
    (folder / "manifest.json").unlink()
    (folder / "progress").mkdir()
    return folder


def test_a_record_that_lists_other_files_is_not_believed(copy, plan, made):
    (copy.parent / "outside.txt").write_bytes(b"secret")
    lie = ShardRecord(0, {"../outside.txt": sha256(b"secret")}, {}, digest_of(open_archive(made).manifest.fixed))
    (unfinished(copy, plan) / lie.key).write_bytes(lie.to_bytes())
    (copy / SHARD).unlink()
    assert generate(plan, copy, workers=1).digest == open_archive(made, verify=True).digest
    open_archive(copy, verify=True)


@pytest.mark.parametrize(
    "data", [b"[" * 200_000, b"[]", b'{"shard": 0, "files": 1, "versions": {}, "fixed": ""}', b"\xff"]
)
def test_a_record_that_is_none_is_not_believed(data, copy, plan, made):
    (unfinished(copy, plan) / ShardRecord(0, {}, {}).key).write_bytes(data)
    assert generate(plan, copy, workers=1).digest == open_archive(made).digest


def test_a_record_that_is_a_fifo_does_not_hang(copy, plan, made):
    os.mkfifo(unfinished(copy, plan) / ShardRecord(0, {}, {}).key)
    assert generate(plan, copy, workers=1).digest == open_archive(made).digest


@pytest.mark.parametrize("name", ["progress", "x.part"])
def test_clearing_up_stays_within_the_folder(name, copy, plan, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("mine")
    (copy / name).symlink_to(precious if name == "progress" else precious / "thesis.txt")
    generate(plan, copy, workers=1)
    assert (precious / "thesis.txt").read_text() == "mine"
    assert not (copy / name).is_symlink()


def test_nothing_is_written_through_a_link_that_leads_outside(copy, plan, tmp_path):
    (tmp_path / "precious").mkdir()
    shutil.rmtree(unfinished(copy, plan) / "loads")
    (copy / "loads").symlink_to(tmp_path / "precious")
    with pytest.raises(ArchiveError):
        generate(plan, copy, workers=1)
    assert not list((tmp_path / "precious").iterdir())


@pytest.mark.parametrize("data", [b'{"a":' * 200_000, b"[]", b'{"attributes": {"plan": []}}', b'{"attributes": 5}'])
def test_a_root_that_is_none_is_not_built_upon(data, plan, tmp_path):
    (tmp_path / "zarr.json").write_bytes(data)
    with pytest.raises(ArchiveError) as error:
        generate(plan, tmp_path, workers=1)
    assert "zarr.json" in error.value.got


@pytest.mark.parametrize("address", ["a\0b", "nonsense://x/y", "http://127.0.0.1:9/x", "s3://", "/dev/null", "/"])
def test_an_address_that_leads_nowhere_is_an_archive_error(address):
    with pytest.raises(ArchiveError):
        open_archive(address)


HOSTILE = [None, True, -1, 0, 10**30, 0.5, float("nan"), 1e300, "", "x", INKY, [], [[]], {}, {"a": 1}, "../x", "\ud800"]


def mutated(value, rng):
    """The same JSON value with one place in it changed, doubled or taken away."""
    places = []

    def walk(inside):
        for key in inside if isinstance(inside, dict) else range(len(inside)):
            places.append((inside, key))
            if isinstance(inside[key], dict | list):
                walk(inside[key])

    walk(value)
    inside, key = places[rng.integers(len(places))]
    match rng.integers(4):
        case 0 if isinstance(inside, dict):
            inside[("../" if rng.random() < 0.5 else INKY) + key] = inside.pop(key)
        case 1:
            del inside[key]
        case _:
            inside[key] = HOSTILE[rng.integers(len(HOSTILE))]


@pytest.mark.parametrize(
    "count", [15, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
              pytest.param(20_000, marks=[pytest.mark.long, pytest.mark.timeout(7200)])],
)  # fmt: skip
@pytest.mark.parametrize("file", ["manifest.json", "zarr.json", "loads/zarr.json"])
def test_mutated_records_are_refused_or_read_right(file, count, copy, right):
    rng = np.random.default_rng(count)
    before = {name: (copy / name).read_bytes() for name in (file, "manifest.json")}
    for _ in range(count):
        for name, data in before.items():
            (copy / name).write_bytes(data)
        craft = manifest(lambda body, _: mutated(body, rng)) if file == "manifest.json" else None
        (craft or rewritten(file, lambda record: mutated(record, rng)))(copy)
        try:
            archive = open_archive(copy)
            read = [stored(name, archive[0]) for name in BY_SYSTEM]
        except ArchiveError:
            continue
        assert all(np.array_equal(one, all_systems[0]) for one, all_systems in zip(read, right, strict=True))


def test_ranges_are_checked_before_work_begins(plan, tmp_path):
    for workers in (-2, 0):
        with pytest.raises(ArchiveError) as error:
            generate(plan, tmp_path / "run", workers=workers)
        assert error.value.got == workers
    for wrong in ({"systems": 2.5}, {"shard_systems": -1}, {"systems": 10**12}):
        with pytest.raises(ArchiveError):
            Plan(plan.recipe, **wrong)
    assert not Path(tmp_path / "run").exists()
