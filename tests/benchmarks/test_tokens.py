"""The paper's limit of memory, predicted from the sizes of what a model keeps."""

import pytest

from benchmarks.tokens import PAPER, predicted_bytes


def test_the_papers_memory_limit_is_predicted_row_by_row():
    for form, table in PAPER.items():
        for nodes, printed in table.items():
            predicted = predicted_bytes(form, nodes, batch=100) / 1e9
            assert (predicted < 40) == (printed is not None), (form, nodes)
            if printed is not None:
                assert predicted == pytest.approx(printed, rel=0.15), (form, nodes)
