"""Doors to other libraries: the hub, scikit-learn, xarray, SciPy, ONNX, The Well."""

from nipde.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "KernelRegressor": "kernel_regressor",
        "discovery_dataset": "labelled",
        "from_xarray": "labelled",
        "open_xarray": "labelled",
        "predictions": "labelled",
        "to_onnx": "onnx_program",
        "to_the_well": "the_well",
        "to_xarray": "labelled",
    },
)
