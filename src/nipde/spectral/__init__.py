"""Transforms that fit a boundary: eigenfunctions of the Laplacian, and moving fields to and from them."""
