"""A picture of a specimen (PNG, TIFF, BMP): `grey`, rows from the top, 0 black to 1 white; transparent is NaN."""

from pathlib import Path

import numpy as np
from PIL import Image

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents

#: Largest value of a channel, by mode of the picture.
WHITE = {"1": 1, "L": 255, "LA": 255, "I;16": 65535, "I;16B": 65535, "I;16L": 65535}


def parse(path: Path, *, values: int) -> Contents:
    """The first picture of the file."""
    contents = Contents(values)
    try:
        with Image.open(path, formats=("PNG", "TIFF", "BMP")) as file:
            contents.reserve("grey", (file.height, file.width))
            if file.mode in ("I", "F"):
                raise OSError(f"pixels of 32 bits ({file.mode})")
            through = "A" in file.getbands() or "transparency" in file.info
            picture = file if file.mode in WHITE else file.convert("LA" if through else "L")
            pixels, white = np.asarray(picture, dtype=np.float32), WHITE[picture.mode]
    except MeasurementError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise MeasurementError(
            expected="a picture of 8 or 16 bits in PNG, TIFF or BMP", got=str(error)[:200], remedy="export it again"
        ) from error
    grey = pixels if pixels.ndim == 2 else np.where(pixels[..., 1] > white / 2, pixels[..., 0], np.nan)
    contents.add("grey", grey / white)
    return contents
