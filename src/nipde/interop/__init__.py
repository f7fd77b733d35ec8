"""Doors to other libraries: the hub, scikit-learn, xarray, SciPy, ONNX, The Well."""
