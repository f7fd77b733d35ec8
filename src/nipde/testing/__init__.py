"""Contract suites for whoever adds an estimator, a kernel, a law or a file format; pytest is not needed.

    nipde.testing.check_estimator(MyEstimator())

raises an AssertionError at the first broken promise. As separate tests:

    @pytest.mark.parametrize("check", nipde.testing.estimator_checks())
    def test_my_estimator(check):
        check(MyEstimator())
"""

from nipde.testing.check import Check
from nipde.testing.estimators import check_estimator, estimator_checks
from nipde.testing.formats import check_format, format_checks
from nipde.testing.kernels import check_kernel, kernel_checks
from nipde.testing.laws import check_law, law_checks

__all__ = [
    "Check", "check_estimator", "check_format", "check_kernel", "check_law", "estimator_checks", "format_checks",
    "kernel_checks", "law_checks",
]  # fmt: skip
