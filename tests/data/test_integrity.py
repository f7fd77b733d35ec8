import pytest

from nipde.benchmarks.integrity import measure
from nipde.cli import main
from nipde.data.archive import open as open_archive
from nipde.errors import IntegrityError


def test_no_damage_goes_unnoticed():
    # 300 trials of each kind, over every file of two small archives.
    found = measure(quick=False)
    for kind in ("flipped_bit", "truncated_file", "deleted_file"):
        assert found[kind]["verify_raised_naming_file"] == found["trials_per_kind"] == 300
        assert found[kind]["verify_silent"] == found[kind]["read_silent"] == 0
        assert found[kind]["read_raised"] > 200  # the damage does reach what a reader asks for


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


def test_a_flipped_bit_is_traced_to_its_file_and_system(copy):
    chunk = 6 * 11 * 11 * 4 + 4
    flip(copy / "responses" / "c.1.0.0.0.0", chunk + 100)  # second system of the second shard
    with pytest.raises(IntegrityError, match=r"responses/c\.1\.0\.0\.0\.0 .*chunk of system 5:"):
        open_archive(copy, verify=True)
    archive = open_archive(copy)
    archive[4]  # its neighbours are unharmed
    with pytest.raises(IntegrityError, match="chunk of system 5:"):
        archive[5]


def test_a_deleted_shard_is_an_error_and_never_zeros(copy):
    (copy / "hidden" / "c.2.0.0.0").unlink()
    with pytest.raises(IntegrityError, match=r"hidden/c\.2\.0\.0\.0 is missing: chunk of system 8, 9"):
        open_archive(copy)[9]


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
