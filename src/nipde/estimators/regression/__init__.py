"""Parts of the classical estimators: fields as matrices, the choice of a penalty, kernels of training systems."""
