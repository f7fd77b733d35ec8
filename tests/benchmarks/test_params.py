"""The paper's parameter counts, to the digit."""

import pytest

from benchmarks.params import measure

# Printed in the paper; typed again here, so that a wrong table cannot agree with itself.
PRINTED = {
    "Darcy 21², 2 layers, NIPS": 98_396,
    "Darcy 21², 4 layers, NIPS": 108_692,
    "Darcy 41², 4 layers, NIPS": 366_932,
    "Darcy 11², 3 layers, NIPS": 327_744,
    "MMNIST 29², 2 layers, NIPS": 720_600,
    "MMNIST 29², 4 layers, NIPS": 768_600,
    "Tissue 29², 4 layers, NIPS-mlp": 2_183_582,
    "Darcy 21², 2 layers, NAO": 101_134,
    "Darcy 21², 4 layers, NAO": 109_494,
    "Darcy 41², 4 layers, NAO": 357_494,
    "Darcy 21², 2 layers, NAO-f": 189_234,
    "Darcy 21², 2 layers, NAO-W^P": 1_658_746,
    "Darcy 11², 3 layers, NAO": 331_554,
    "MMNIST 29², 2 layers, NAO": 722_748,
    "MMNIST 29², 4 layers, NAO": 763_548,
    "Darcy 21², 2 layers, AFNO (as 20²)": 101_200,
    "Darcy 21², 4 layers, AFNO (as 20²)": 121_600,
    "Darcy 41², 4 layers, AFNO (as 40²)": 364_000,
}


@pytest.fixture(scope="module")
def found():
    return measure(quick=True)


def test_every_count_is_the_printed_one(found):
    assert found["equal"] is True
    for row in found["rows"]:
        assert row["ours"] == row["paper"], row["row"]


@pytest.mark.parametrize("name", PRINTED)
def test_every_printed_row_is_there(found, name):
    (row,) = [row for row in found["rows"] if row["row"] == name]
    assert row["ours"] == PRINTED[name]


def test_afno_s_layer_has_the_printed_size(found):
    assert found["afno_per_layer"] == {"paper": 10_200, "ours": 10_200}


@pytest.mark.parametrize(
    ("name", "dead"),
    [
        ("Darcy 21², 2 layers, NIPS", 2 * 2 * (22 + 1)),  # layers · fields · (a row of 11 pairs + one imaginary mean)
        ("Darcy 41², 4 layers, NIPS", 4 * 2 * (42 + 1)),
        ("MMNIST 29², 2 layers, NIPS", 2 * 4 * (30 + 1)),
        ("Darcy 21², 2 layers, NAO", 0),
        ("Darcy 21², 2 layers, AFNO (as 20²)", 0),
    ],
)
def test_numbers_that_never_act_are_counted(found, name, dead):
    (row,) = [row for row in found["rows"] if row["row"] == name]
    assert row["dead"] == dead
