import re

import numpy as np
import pytest

from nipde.cli import main
from nipde.data.archive import BY_SYSTEM, open_archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.layout import stored
from nipde.data.plan import Plan
from nipde.errors import ArchiveError, IntegrityError


def flip_a_bit(content, rng):
    damaged = bytearray(content)
    damaged[rng.integers(len(damaged))] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def truncate(content, rng):
    return content[: rng.integers(len(content))]


def delete(content, rng):
    return None


def everything(archive):
    systems = open_archive(archive)[:]
    return [stored(name, systems) for name in BY_SYSTEM]


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Two small ones, with loads of their own and with shared loads, and what they hold."""
    folder = tmp_path_factory.mktemp("integrity")
    for shared in (False, True):
        recipe = DarcyRecipe(nodes=11, pairs=4, shared_loads=shared)
        generate(Plan(recipe, systems=10, seed=11, shard_systems=4), folder / str(shared), workers=1)
    return {archive: everything(archive) for archive in sorted(folder.iterdir())}


@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.long)])
@pytest.mark.parametrize("damage", [flip_a_bit, truncate, delete])
def test_no_damage_goes_unnoticed(damage, rounds, archives):
    """Every file in turn: `verify` names it, and a plain read ends in an error or in the right values."""
    rng = np.random.default_rng(11)
    files = [(archive, file) for archive in archives for file in sorted(archive.rglob("*")) if file.is_file()]
    assert len(files) > 50
    refused = 0
    for archive, file in files * rounds:
        content = file.read_bytes()
        damaged = damage(content, rng)
        file.unlink() if damaged is None else file.write_bytes(damaged)
        try:
            with pytest.raises(ArchiveError, match=re.escape(file.relative_to(archive).as_posix())):
                open_archive(archive, verify=True)
            try:
                values = everything(archive)
            except ArchiveError:
                refused += 1
            else:
                assert all(map(np.array_equal, values, archives[archive])), file
        finally:
            file.write_bytes(content)
    assert refused > 0.9 * rounds * len(files)  # the damage does reach what a reader needs


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


def test_a_flipped_bit_is_traced_to_its_file_and_system(copy):
    chunk = 6 * 11 * 11 * 4 + 4
    flip(copy / "responses" / "c.1.0.0.0.0", chunk + 100)  # second system of the second shard
    with pytest.raises(IntegrityError) as error:
        open_archive(copy, verify=True)
    assert all(part in error.value.message for part in ("responses/c.1.0.0.0.0", "system 5"))
    archive = open_archive(copy)
    archive[4]  # its neighbours are unharmed
    with pytest.raises(IntegrityError) as error:
        archive[5]
    assert all(part in error.value.message for part in ("responses/c.1.0.0.0.0", "system 5"))


def test_a_deleted_shard_is_an_error_and_never_zeros(copy):
    (copy / "hidden" / "c.2.0.0.0").unlink()
    with pytest.raises(IntegrityError) as error:
        open_archive(copy)[9]
    assert all(part in error.value.message for part in ("hidden/c.2.0.0.0", "system 8, 9"))


def test_the_command_names_all_that_is_damaged(copy, capsys):
    flip(copy / "responses" / "c.0.0.0.0.0", 10)
    (copy / "seed" / "c.1").unlink()
    assert main(["verify", str(copy)]) == 1
    printed = capsys.readouterr().err
    assert "responses/c.0.0.0.0.0" in printed
    assert "seed/c.1 is missing" in printed


def test_the_command_says_when_all_is_well(made, capsys):
    assert main(["verify", str(made), "--rebuild", "3"]) == 0
    printed = capsys.readouterr().out
    assert "intact" in printed
    assert "3 systems computed again" in printed


def test_a_number_of_systems_below_zero_is_refused(archive):
    with pytest.raises(ArchiveError) as error:
        archive.drawn(-4)
    assert error.value.got == -4
    assert sorted(archive.drawn(100)) == list(range(10))


def test_damaged_shards_are_repaired_from_their_seeds(copy, made, capsys):
    flip(copy / "responses" / "c.0.0.0.0.0", 10)
    (copy / "seed" / "c.1").unlink()
    assert main(["verify", str(copy), "--repair"]) == 0
    assert "repaired: shards 0, 1" in capsys.readouterr().out
    assert (copy / "responses" / "c.0.0.0.0.0").read_bytes() == (made / "responses" / "c.0.0.0.0.0").read_bytes()


def test_what_no_seed_makes_again_is_not_called_repaired(copy, capsys):
    flip(copy / "x" / "c.0", 3)
    assert main(["verify", str(copy), "--repair"]) == 1
    assert "x/c.0" in capsys.readouterr().err
