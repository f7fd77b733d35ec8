"""Campaigns of pumping tests in the layout of welltestpy, written from scratch."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np


def zipped(members: Mapping[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def variable(name: str, values: float | np.ndarray, unit: str, *, version: str = "") -> str:
    values = np.asarray(values, dtype=float)
    rows = [f'"wtp-version","{version}"'] if version else []
    rows += [
        '"Variable"',
        f'"name","{name}"',
        '"symbol","?"',
        f'"units","{unit}"',
        '"description","made up"',
        '"float"',
    ]
    if values.ndim == 0:
        rows += ['"scalar"', f'"value",{values!r}'.replace("array(", "").replace(")", "")]
    else:
        rows += [
            '"shape",' + ",".join(map(str, values.shape)),
            f'"values",{values.size}',
            *map(repr, values.ravel().tolist()),
        ]
    return "\n".join([*rows, ""])


def info(*rows: tuple[str, object], version: str = "") -> str:
    lines = [f'"wtp-version","{version}"'] if version else []
    lines += [f'"{key}"' if value is None else f'"{key}","{value}"' for key, value in rows]
    return "\n".join([*lines, ""])


def well(name: str, place: tuple[float, float], *, version: str = "") -> bytes:
    keys = {"radius": 0.1, "coordinates": np.array(place), "welldepth": 3.0, "aquiferdepth": 3.0}
    keys |= {"screensize": 3.0} if version else {}
    members = {f"{key}.var": variable(key, value, "m", version=version) for key, value in keys.items()}
    head = info(("Well", None), ("name", name), *((key, f"{key}.var") for key in keys), version=version)
    return zipped({"info.csv": head, **members})


def observation(name: str, time: np.ndarray, drawdown: np.ndarray, *, unit: str = "m", version: str = "") -> bytes:
    head = info(
        ("Observation", None), ("name", name), ("state", "transient"), ("description", "drawdown"), ("time", "t.var"),
        ("observation", "s.var"), version=version,
    )  # fmt: skip
    members = {"t.var": variable("time", time, "s", version=version)}
    members["s.var"] = variable("drawdown", drawdown, unit, version=version)
    return zipped({"info.csv": head, **members})


def pumping_test(
    name: str, pumped: str, rate: float, seen: Mapping[str, tuple[np.ndarray, np.ndarray]], *, version: str = "",
    unit: str = "m",
) -> bytes:  # fmt: skip
    head = info(
        ("Testtype", "PumpingTest"), ("name", name), ("description", ""), ("timeframe", ""), ("pumpingwell", pumped),
        ("pumpingrate", "rate.var"), ("aquiferdepth", "depth.var"), ("aquiferradius", "radius.var"),
        ("Observations", len(seen)), *((one, f"{one}.obs") for one in seen), version=version,
    )  # fmt: skip
    members: dict[str, bytes | str] = {"rate.var": variable("rate", rate, "m^3/s", version=version)}
    members |= {
        f"{one}.var": variable(one, value, "m", version=version) for one, value in (("depth", 3.0), ("radius", np.inf))
    }
    members |= {f"{one}.obs": observation(one, *values, unit=unit, version=version) for one, values in seen.items()}
    return zipped({"info.csv": head, **members})


def write_campaign(
    path: Path, wells: Mapping[str, tuple[float, float]],
    tests: Mapping[str, tuple[str, float, Mapping[str, tuple[np.ndarray, np.ndarray]]]], *, version: str = "",
    unit: str = "m",
) -> Path:  # fmt: skip
    """Tests by name: the pumped well, its rate in m³/s, and (times, drawdowns) of the observed wells."""
    head = info(
        ("Campaign", None), ("name", "made up"), ("description", ""), ("timeframe", ""), ("fieldsite", "site.fds"),
        ("Wells", len(wells)), *((name, f"{name}.wel") for name in wells),
        ("Tests", len(tests)), *((name, f"{name}.tst") for name in tests), version=version,
    )  # fmt: skip
    members: dict[str, bytes | str] = {
        f"{name}.wel": well(name, place, version=version) for name, place in wells.items()
    }
    members |= {f"{name}.tst": pumping_test(name, *test, version=version, unit=unit) for name, test in tests.items()}
    site = info(("Fieldsite", None), ("name", "x"), ("description", ""), ("coordinates", "None"), version=version)
    path.write_bytes(zipped({"info.csv": head, "site.fds": zipped({"info.csv": site}), **members}))
    return path


#: Of the example: m²/s, 1, m³/s.
TRANSMISSIVITY, STORATIVITY, RATE = 0.02, 0.002, 0.003
WELLS = {"a": (0.0, 0.0), "b": (7.0, 1.0), "c": (-4.0, 9.0), "d": (-12.0, -6.0), "e": (15.0, 8.0), "f": (3.0, -11.0)}
TIMES = np.geomspace(5, 7200, 40)


def theis(distance: float, time: np.ndarray, *, rate: float = RATE) -> np.ndarray:
    """Q/4πT W(r²S/4Tt), the drawdown of a homogeneous aquifer without end."""
    from scipy.special import exp1

    return np.asarray(
        rate / (4 * np.pi * TRANSMISSIVITY) * exp1(distance**2 * STORATIVITY / (4 * TRANSMISSIVITY * time))
    )


def homogeneous_campaign(path: Path, *, noise: float = 0.0, seed: int = 0, **layout: str) -> Path:
    """Three tests in an aquifer by Theis."""
    rng, tests = np.random.default_rng(seed), {}
    for pumped in ("a", "b", "c"):
        seen = {}
        for name, place in WELLS.items():
            drawdown = theis(max(float(np.hypot(*np.subtract(place, WELLS[pumped]))), 0.1), TIMES)
            seen[name] = (TIMES, drawdown + noise * rng.standard_normal(len(TIMES)))
        tests[f"test_{pumped}"] = (pumped, RATE, seen)
    return write_campaign(path, WELLS, tests, **layout)
