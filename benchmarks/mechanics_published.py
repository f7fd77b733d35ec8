"""Strain energies that Lejeune (2020) published for uniaxial extension of Mechanical MNIST, and the images they are of.

Energies: `summary_psi_test_all.txt` of github.com/elejeune11/Mechanical-MNIST, quadratic triangles on a fine mesh,
minus the energy at rest. Images: MNIST test images 0 and 2 by LeCun and Cortes, CC BY-SA 3.0.
"""

import numpy as np
from jaxtyping import UInt8

#: Distances by which the top of the 28 × 28 body is moved.
DISTANCES = (0.1, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0)
#: ∫ψ dx at these distances, by number of the image.
ENERGIES = {
    0: (0.00937, 0.23278, 0.92396, 3.63985, 14.13370, 30.91164, 53.49105, 81.46624, 114.49863, 152.30835),
    2: (0.00869, 0.21569, 0.85526, 3.36367, 13.03265, 28.46902, 49.23478, 74.96673, 105.35938, 140.15297),
}
#: Row, first column, and values of what is not black.
_IMAGES = {
    0: (
        "7 6 54b99f973c24, 8 6 defefefefef1c6c6c6c6c6c6c6c6aa34, 9 6 43724872a3e3fee1fefefefae5fefe8c, 10 11 "
        "11420e4343433b15ecfe6a, 11 18 53fdd112, 12 17 16e9ff53, 13 17 81feee2c, 14 16 3bf9fe3e, 15 16 85febb05, "
        "16 15 09cdf83a, 17 15 7efeb6, 18 14 4bfbf039, 19 13 13ddfea6, 20 12 03cbfedb23, 21 12 26fefe4d, 22 11 "
        "1fe0fe7301, 23 11 85fefe34, 24 10 3df2fefe34, 25 10 79fefedb28, 26 10 79fecf12"
    ),
    2: (
        "4 16 26fe6d, 5 16 57fc52, 6 16 87f1, 7 15 2df496, 8 15 54fe3f, 9 15 cadf0b, 10 14 20fed8, 11 14 5ffec3, "
        "12 14 8cfe4d, 13 13 39edcd08, 14 13 7cffa5, 15 13 abfe51, 16 12 18e8d7, 17 12 78fe9f, 18 12 97fe8e, 19 "
        "12 e4fe42, 20 11 3dfbfe42, 21 11 8dfecd03, 22 10 0ad7fe79, 23 10 05c6b00a"
    ),
}


def bitmap(number: int) -> UInt8[np.ndarray, "row column"]:
    """One of the images."""
    image = np.zeros((28, 28), dtype=np.uint8)
    for line in _IMAGES[number].split(", "):
        row, column, values = line.split()
        pixels = np.frombuffer(bytes.fromhex(values), dtype=np.uint8)
        image[int(row), int(column) : int(column) + len(pixels)] = pixels
    return image
