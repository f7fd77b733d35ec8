import json
import multiprocessing
import pickle

import numpy as np
import pytest
import xarray
import zarr

import nipde
from nipde.data.archive import open_archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.layout import encode, layout_of, stored
from nipde.data.plan import Plan
from nipde.data.problems import AdvectionRecipe, recipe_from_dict
from nipde.errors import ArchiveError, IntegrityError


def test_what_was_built_is_what_is_read(archive, plan):
    for index in (0, 3, 4, 9):
        read, built = archive[index], plan.recipe.build(plan.system_seed(index))
        for name in ("loads", "responses", "hidden", "seed", "parameters", "diagnostics"):
            np.testing.assert_array_equal(stored(name, read), stored(name, built))
        assert read.parameters.keys() == built.parameters.keys()


def test_a_batch_is_its_systems_in_the_order_asked_for(archive):
    batch = archive[[7, 2, 7, 9]]
    assert batch.responses.shape == (4, 6, 1, 11, 11)
    for place, index in enumerate([7, 2, 7, 9]):
        np.testing.assert_array_equal(batch.responses[place], archive[index].responses)
    np.testing.assert_array_equal(archive[2:4].seed, archive[[2, 3]].seed)
    np.testing.assert_array_equal(archive[-1].seed, archive[9].seed)


def test_some_pairs_only(archive):
    part = archive.read([1, 8], pairs=[4, 0])
    np.testing.assert_array_equal(part.loads, archive[[1, 8]].loads[:, [4, 0]])
    assert part.diagnostics["residual"].shape == (2, 2)


def test_an_index_beyond_the_end_says_which_exist(archive):
    with pytest.raises(IndexError) as error:
        archive[10]
    assert (error.value.expected, error.value.got) == ("a system from 0 to 9", 10)


def test_grid_units_and_split_come_with_it(archive):
    assert archive.grid == archive.plan.recipe.grid
    assert archive.quantities.hidden.name == "permeability"
    assert [len(archive.indices(part)) for part in ("train", "validation", "test")] == [8, 1, 1]
    assert len(archive.load_indices("test")) == 6  # every system has loads of its own
    with pytest.raises(ArchiveError) as error:
        archive.indices("exam")
    assert error.value.got == "'exam'"


def test_shared_loads_are_stored_once_and_split_too(tmp_path):
    recipe = DarcyRecipe(nodes=11, pairs=10, shared_loads=True)
    archive = generate(Plan(recipe, systems=10), tmp_path / "shared", workers=1)
    assert zarr.open_group(tmp_path / "shared")["loads"].shape == (1, 10, 1, 11, 11)
    batch = archive[[0, 5]]
    np.testing.assert_array_equal(batch.loads[0], batch.loads[1])
    held_out, seen = archive.load_indices("test"), archive.load_indices("train")
    assert len(held_out) == 1
    assert not set(held_out) & set(seen)
    archive.rebuild(5)


def test_two_component_hidden_fields_fit_the_same_schema(tmp_path):
    archive = generate(Plan(AdvectionRecipe(pairs=3), systems=10), tmp_path / "stirred", workers=1)
    assert archive[0].hidden.shape == (2, 21, 21)
    assert 10 <= archive[0].parameters["peak_speed"] <= 20
    archive.rebuild(4)


def test_provenance_is_enough_to_make_a_system_again(archive):
    record = json.loads(json.dumps(archive.provenance(6)))
    again = recipe_from_dict(record["recipe"]).build(record["seed"], shared_seed=record["shared_seed"])
    np.testing.assert_array_equal(again.responses, archive[6].responses)
    assert record["residual"] <= 1e-10
    assert {"nipde", "numpy", "scipy", "zarr", "python"} <= record["versions"].keys()


def test_a_hundred_systems_are_reproduced_bit_by_bit(tmp_path):
    archive = generate(Plan(DarcyRecipe(nodes=11, pairs=5), systems=100), tmp_path / "hundred", workers=1)
    for system in range(100):
        archive.rebuild(system)


def test_a_system_that_is_not_reproduced_is_reported(archive, monkeypatch):
    monkeypatch.setattr(type(archive.plan.recipe), "load_alpha", 2.0)
    object.__setattr__(archive.plan.recipe, "load_alpha", 2.0)
    try:
        with pytest.raises(IntegrityError) as error:
            archive.rebuild(0)
        assert error.value.got == "others"
    finally:
        object.__setattr__(archive.plan.recipe, "load_alpha", 1.0)


def test_plain_zarr_and_xarray_read_it(made, archive):
    group = zarr.open_group(made, mode="r")
    np.testing.assert_array_equal(group["responses"][3], archive[3].responses)
    labelled = xarray.open_zarr(made, consolidated=False)
    assert labelled["responses"].dims == ("system", "pair", "component", "x", "y")
    np.testing.assert_array_equal(labelled["x"], archive.grid.axes[0].coordinates)
    np.testing.assert_array_equal(labelled["hidden"][3], archive[3].hidden)


@pytest.mark.parametrize("name", ["loads", "hidden", "diagnostics", "x"])
def test_our_encoder_writes_the_bytes_zarr_writes(plan, name, tmp_path):
    layout = layout_of(plan)[name]
    values = np.random.default_rng(0).standard_normal(layout.shape).astype(layout.dtype)
    width = plan.systems_per_shard if layout.by_system else len(values)
    full = values[:width]
    array = zarr.create_array(
        tmp_path / "theirs", shape=full.shape, dtype=layout.dtype, chunks=layout.chunks, shards=layout.shards,
        compressors=[zarr.codecs.Crc32cCodec()], chunk_key_encoding={"name": "default", "separator": "."},
    )  # fmt: skip
    array[:] = full
    theirs = (tmp_path / "theirs" / ("c" + ".0" * len(layout.shape))).read_bytes()
    assert encode(layout, full) == theirs


def test_large_fields_are_cut_into_chunks_of_pairs(tmp_path):
    plan = Plan(DarcyRecipe(nodes=1024, pairs=5), systems=10)
    layout = layout_of(plan)["responses"]
    assert layout.chunks == (1, 2, 1, 1024, 1024)  # 8 MiB
    assert layout.shards == (1, 6, 1, 1024, 1024)
    small = Plan(DarcyRecipe(nodes=11, pairs=5), systems=3, split=(1.0, 0.0, 0.0), shard_systems=2)
    layout = layout_of(small)["responses"]
    layout = type(layout)(layout.shape, layout.dimensions, layout.dtype, (1, 2, 1, 11, 11), (2, 6, 1, 11, 11))
    values = np.random.default_rng(0).standard_normal((2, 5, 1, 11, 11)).astype("float32")
    array = zarr.create_array(
        tmp_path / "cut", shape=(2, 5, 1, 11, 11), dtype="float32", chunks=layout.chunks, shards=layout.shards,
        compressors=[zarr.codecs.Crc32cCodec()], chunk_key_encoding={"name": "default", "separator": "."},
    )  # fmt: skip
    (tmp_path / "cut" / "c.0.0.0.0.0").write_bytes(encode(layout, values))
    np.testing.assert_array_equal(array[:], values)


def test_an_archive_can_be_pickled_and_used_after_a_fork(archive):
    expected = archive[5].responses
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(archive))[5].responses, expected)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for found in pool.map(archive.__getitem__, [5, 5, 5]):
            np.testing.assert_array_equal(found.responses, expected)


def test_what_is_no_archive_is_said_to_be_none(tmp_path):
    with pytest.raises(ArchiveError) as error:
        nipde.open_archive(tmp_path / "nothing")
    assert error.value.got == "no archive"


def test_an_unfinished_archive_is_not_opened(copy):
    (copy / "manifest.json").unlink()
    with pytest.raises(ArchiveError) as error:
        open_archive(copy)
    assert error.value.got == "an unfinished one"


def test_an_archive_of_a_later_format_is_refused(copy):
    root = json.loads((copy / "zarr.json").read_text())
    root["attributes"]["format_version"] = 99
    data = json.dumps(root).encode()
    (copy / "zarr.json").write_bytes(data)
    from nipde.data.manifest import Manifest, sha256

    manifest = Manifest.from_bytes((copy / "manifest.json").read_bytes())
    changed = Manifest({**manifest.fixed, "zarr.json": sha256(data)}, manifest.shards)
    (copy / "manifest.json").write_bytes(changed.to_bytes())
    with pytest.raises(ArchiveError) as error:
        open_archive(copy)
    assert error.value.got == "nipde-archive version 99"
