"""Any linear kernel for SciPy: A = K W, from nodal values of a load to nodal values of the response."""

from scipy.sparse.linalg import LinearOperator

from nipde.errors import KernelError
from nipde.kernels.base import Kernel, Predictor


def as_linear_operator(kernel: Predictor) -> LinearOperator:
    """`matvec`, `matmat`, `rmatvec` and `rmatmat` in the kernel's precision; no N × N matrix is formed.

    Vectors run over components, then nodes. The transpose is that of the matrix K W, not of K.
    """
    if not isinstance(kernel, Kernel):
        raise KernelError(
            expected="a kernel, which is linear in the load",
            got=f"{type(kernel).__name__}",
            remedy="apply it to loads instead",
        )
    return kernel.as_linear_operator()
