"""Units of a measurement; required, never guessed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Units:
    """Of lengths, loads and responses, as words such as `mm` or `N/m^2`."""

    length: str
    load: str
    response: str
