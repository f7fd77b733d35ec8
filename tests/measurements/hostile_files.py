"""Files, links and descriptions made to hang, crash, flood or mislead whoever reads them; each by a small function."""

import base64
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import scipy.io

Craft = Callable[[Path], object]
UNITS = '{"x": "mm", "y": "mm", "loads": "N/m^2", "responses": "mm"}'


def good(path: Path, **other: object) -> None:
    """A measurement that can be read, with some arrays replaced."""
    x, rng = np.linspace(0, 8, 9), np.random.default_rng(0)
    fields = rng.standard_normal((2, 3, 9, 9))
    np.savez(path, **{"x": x, "y": x, "loads": fields[0], "responses": fields[1], "units": np.array(UNITS), **other})


def hostile_files() -> dict[str, Craft]:
    """Name of a file -> what writes it."""
    return dict((*_archives(), *_arrays_of_text(), *_hdf5(), *_matlab(), *_vtk(), *_tables(), *_special(), *_toml()))


def npy(shape: object, descr: object = "<f8", data: bytes = b"") -> bytes:
    """An array file with any header at all."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) & 0xFFFF) + header + data


def _zipped(*members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Craft:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, content in members:
                archive.writestr(name, content)

    return write


def _text(content: str | bytes) -> Craft:
    return lambda path: path.write_bytes(
        content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    )


def _archives() -> Iterator[tuple[str, Craft]]:
    for name, shape, descr in (
        ("huge", (10**9, 10**9), "<f8"), ("negative", (-1, 8), "<f8"), ("overflow", (2**63, 2), "<f8"),
        ("nothing_times_huge", (0, 2**40), "<f8"), ("many_axes", (1,) * 64, "<f8"), ("void", (4,), "|V1000000000"),
        ("deep_type", (1,), [("a", "<f8", (10**6, 10**6))]), ("text_shape", "x", "<f8"), ("float_shape", (1.5,), "<f8"),
        ("objects", (1,), "|O"), ("dates", (1,), "<M8[D]"), ("texts", (2,), "<U4"), ("no_type", (1,), "nonsense"),
    ):  # fmt: skip
        yield f"{name}.npz", _zipped(("loads.npy", npy(shape, descr)))
    zeros = npy((2**22,), data=bytes(2**25))
    yield "bomb.npz", _zipped(("loads.npy", zeros))
    yield "bomb_of_another_kind.npz", _zipped(("loads.npy", zeros), compression=zipfile.ZIP_LZMA)
    yield "bomb_that_lies.npz", _bomb_that_lies
    yield "many_members.npz", _zipped(*((f"a{number}.npy", b"") for number in range(20_000)))
    yield "twice.npz", _zipped(("a.npy", npy((1,), data=bytes(8))), ("b/../a.npy", npy((1,), data=bytes(8))))
    yield "parent.npz", _zipped(("../../x.npy", b"1"))
    yield "absolute.npz", _zipped(("/etc/x.npy", b"1"))
    yield "code.npz", _zipped(("loads.npy", npy("__import__('os').getcwd()")))
    yield "brackets.npz", _zipped(("loads.npy", npy("(" * 9000)))
    yield "empty.npz", _text(b"")
    yield "cut.npz", _text(b"PK\x03\x04")
    yield "pickle.npz", lambda path: np.savez(path, loads=np.array([print], dtype=object))


def _bomb_that_lies(path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("loads.npy", npy((100,), data=bytes(2**25)))
    content = bytearray(buffer.getvalue())
    place = content.rfind(b"PK\x01\x02")
    content[place + 24 : place + 28] = struct.pack("<I", 928)
    path.write_bytes(content)


def _arrays_of_text() -> Iterator[tuple[str, Craft]]:
    for name, text in (
        ("deep_list", "[" * 200_000), ("deep_object", '{"a":' * 100_000), ("large_number", '{"x":' + "9" * 5000 + "}"),
        ("no_mapping", "[1]"), ("units_of_units", '{"x": {"x": "mm"}}'), ("power_of_powers", '{"x": "9^9^9^9^9"}'),
        ("long_unit", '{"x": "' + "m" * 200_000 + '"}'), ("unit_of_nothing", '{"z": "mm"}'),
    ):  # fmt: skip
        yield f"{name}.npz", lambda path, text=text: good(path, units=np.array(text))
    yield "not_finite.npz", lambda path: good(path, x=np.full(9, np.inf))
    yield "largest_numbers.npz", lambda path: good(path, responses=np.full((3, 9, 9), 1.7e308))
    yield "denormal_grid.npz", lambda path: good(path, x=np.linspace(0, 5e-324, 9))
    yield "many_pairs.npz", lambda path: good(path, loads=np.zeros((0, 9, 9)))


def _hdf5() -> Iterator[tuple[str, Craft]]:
    layout = h5py.VirtualLayout((9,), "f8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "s", (9,))
    fills: dict[str, Callable[[h5py.File], object]] = {
        "link": lambda file: file.__setitem__("loads", h5py.ExternalLink("/etc/passwd", "/s")),
        "storage": lambda file: file.create_dataset("loads", (9,), "f8", external=[("/etc/passwd", 0, 72)]),
        "virtual": lambda file: file.create_virtual_dataset("loads", layout),
        "soft_loop": lambda file: file.update({"a": h5py.SoftLink("/b"), "b": h5py.SoftLink("/a")}),
        "hard_loop": lambda file: file.create_group("g").__setitem__("g", file["/"]),
        "huge": lambda file: file.create_dataset("loads", (10**6, 10**6), "f8", chunks=(1000, 1000)),
        "bomb": lambda file: file.create_dataset("u", (2**26,), "i1", chunks=(2**24,), compression="gzip",
                                               data=np.zeros(2**26, np.int8)),
        "wide_chunk": lambda file: file.create_dataset("loads", (10,), "f8", maxshape=(None,), chunks=(2**23,),
                                                       compression="gzip", data=np.zeros(10)),
        "deep": lambda file: file.create_group("/".join("g" * 1000)).__setitem__("loads", np.zeros(9)),
        "wide": lambda file: [file.create_group(f"g{number}") for number in range(5000)],
        "bytes_name": lambda file: file.create_dataset(b"m\xfc", data=np.zeros(9)),
        "plugin": lambda file: file.create_dataset("loads", (9,), "f8", chunks=(9,), compression=32015,
                                                   allow_unknown_filter=True),
    }  # fmt: skip

    def write(path: Path, fill: Callable[[h5py.File], object]) -> None:
        with h5py.File(path, "w") as file:
            fill(file)

    for name, fill in fills.items():
        for suffix in ("h5", "nc", "mat") if name in ("link", "virtual", "soft_loop", "huge") else ("h5",):
            yield f"{name}.{suffix}", lambda path, fill=fill: write(path, fill)
    yield "cut.h5", _text(b"\x89HDF\r\n\x1a\n" + bytes(8))


def _matlab() -> Iterator[tuple[str, Craft]]:
    def tag(kind: int, size: int) -> bytes:
        return struct.pack("<II", kind, size)

    def bomb(rows: int) -> bytes:
        head = tag(6, 8) + struct.pack("<II", 6, 0) + tag(5, 8) + struct.pack("<ii", rows, 1)
        head += tag(1, 1) + b"a" + bytes(7) + tag(9, 2**25)
        packed = zlib.compress(tag(14, len(head) + 2**25) + head + bytes(2**25))
        return b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 256) + b"IM" + tag(15, len(packed)) + packed

    def nested(path: Path) -> None:
        inner: dict[str, object] = {"a": 1.0}
        for _ in range(100):
            inner = {"a": inner}
        scipy.io.savemat(path, {"s": inner})

    def cell(path: Path) -> None:
        with h5py.File(path, "w") as file:
            references = file.create_dataset("loads", (1000,), dtype=h5py.ref_dtype)
            references[:] = references.ref

    yield "bomb.mat", lambda path: path.write_bytes(bomb(2**22))
    yield "bomb_that_lies.mat", lambda path: path.write_bytes(bomb(10))
    yield "deep.mat", nested
    yield "cell_of_itself.mat", cell


def _vtk() -> Iterator[tuple[str, Craft]]:
    start, end = '<?xml version="1.0"?>', "</VTKFile>"
    laughs = '<!ENTITY a0 "aaaaaaaaaa">' + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    piece = '<UnstructuredGrid><Piece NumberOfPoints="33554432" NumberOfCells="0"><Points><DataArray type="Float64" '
    piece += 'Name="p" NumberOfComponents="3" format="binary">'
    packed = zlib.compress(bytes(2**27))
    data = (base64.b64encode(struct.pack("<IIII", 1, 2**31 - 1, 0, len(packed))) + base64.b64encode(packed)).decode()
    head = (
        '<VTKFile type="UnstructuredGrid" version="0.1" byte_order="LittleEndian" compressor="vtkZLibDataCompressor">'
    )
    foot = f"</DataArray></Points></Piece></UnstructuredGrid>{end}"
    grid = "# vtk DataFile Version 3.0\nx\nASCII\nDATASET"
    yield "entity.vtu", _text(f'{start}<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><VTKFile>&x;{end}')
    yield "laughs.vtu", _text(f"{start}<!DOCTYPE r [{laughs}]><VTKFile>&a9;{end}")
    late = f"{start}<!--<VTKFile-->{' ' * 5000}<!DOCTYPE r [{laughs}]><VTKFile type='UnstructuredGrid'><a>&a9;</a>{end}"
    yield "late_laughs.vtu", _text(late)
    yield "utf16.vtu", _text(f"<!DOCTYPE r [{laughs}]><VTKFile>&a9;{end}".encode("utf-16") + b"<VTKFile")
    yield "bomb.vtu", _text(f"{start}{head}{piece}{data}{foot}")
    yield "deep.vtu", _text(f'<VTKFile type="UnstructuredGrid">{"<a>" * 100_000}{"</a>" * 100_000}{end}')
    yield "huge.vtk", _text(f"{grid} STRUCTURED_POINTS\nDIMENSIONS 100000 100000 100\nORIGIN 0 0 0\nSPACING 1 1 1\n")
    yield "negative.vtk", _text(f"{grid} UNSTRUCTURED_GRID\nPOINTS -5 double\n1 2 3\n")


def _tables() -> Iterator[tuple[str, Craft]]:
    rows = "".join(f"{i % 5},{i // 5},1,{i % 3}\n" for i in range(25))
    for number, unit in enumerate(
        ("9²²²²²²²²²²", "9^((9*9*9*9*9*9*9*9*9))", "((((9^9)^9)^9)^9)", "m" * 100_000, "m^m")
    ):
        yield f"unit_{number}.csv", _text(f"x [{unit}],y [mm],load [N/m^2],response [mm]\n{rows}")
    yield "one_line.csv", _text("a" * 10**7)
    yield "one_row.csv", _text("1," * 10**6)
    yield (
        "many_columns.csv",
        _text(",".join(f"c{i}" for i in range(10**5)) + "\n" + ",".join("1" for _ in range(10**5))),
    )
    yield "spaces.csv", _text("x [mm]," + " " * 200_000 + "a" + " " * 200_000 + "b\n1,2\n")
    yield "brackets.csv", _text("(" * 100_000 + "\n1\n")
    yield "names_with_marks.csv", _text(f"x [mm],y [mm],\u202eload [N/m^2],u\u200b [mm]\n{rows}")
    yield "open_quote.csv", _text('x [mm],"y [mm]\n' + "1,2\n" * 1000)
    yield "long_number.csv", _text("x [mm],y [mm],load [N],response [mm]\n1,1,1," + "9" * 10**6 + "\n")
    yield "zeros.csv", _text(b"x,y\n\0\0\n")
    yield "comments.csv", _text("#\n" * 10**6)


def _special() -> Iterator[tuple[str, Craft]]:
    yield "device.csv", lambda path: path.symlink_to("/dev/zero")
    yield "pipe.csv", os.mkfifo
    yield "loop.npz", lambda path: path.symlink_to(path)
    yield "nothing.csv", lambda path: path.symlink_to("/nonexistent/file")
    yield "folder.npz", Path.mkdir
    yield "environment.csv", lambda path: path.symlink_to("/proc/self/environ")
    yield "memory.csv", lambda path: path.symlink_to("/proc/self/mem")


def _toml() -> Iterator[tuple[str, Craft]]:
    for name, content in (
        ("deep", "files = " + "[" * 5000 + "]" * 5000), ("long_key", "a" + ".a" * 20_000 + " = 1"),
        ("many_tables", "".join(f"[{'.'.join('a' * n)}]\n" for n in range(1, 800))), ("tables", "[[loads]]\n" * 50_000),
        ("large_integer", "nodes = " + "9" * 5000 + '\nfiles = "good.npz"'), ("latin", b'files = "\xfc"'),
        ("large_nodes", 'files = "good.npz"\nnodes = [100000, 100000]'), ("date", "files = 1979-05-27"),
        ("other_file", 'files = ["/etc/passwd"]\nformat = "csv"'), ("parent", 'files = "../../../etc/passwd"'),
        ("amounts", 'files = "good.npz"\namounts = "/etc/passwd"'), ("null", 'files = "a\\u0000b"'),
        ("itself", 'files = "itself.toml"'), ("device", 'files = "device.csv"'), ("no_files", "files = []"),
        ("infinite_box", 'files = "good.npz"\nbox = [[-inf, inf], [0, nan]]'), ("large", "#" * 2**21),
        ("kind_of_list", 'files = "good.npz"\nloads = [{kind = ["point"]}]'),
        ("long_name", f'files = "{"a" * 5000}"'),
        ("vector", 'files = "good.npz"\nloads = [{kind = "side", side = "left", traction = [1, 2]}]'),
        ("link", 'files = "link_out.csv"'),
        ("scale", 'files = "good.npz"\nscale = "9^9^9^9^9 mm/px"'),
        ("noise", 'files = "good.npz"\nnoise = "9^9^9^9 %"'),
        ("axes", f'files = "good.npz"\naxes = "{"xy" * 10_000}"'), ("unknown", f'{"k" * 100_000} = 1'),
        ("pair", 'files = "good.npz"\nloads = [{kind = "constant", pair = 1000000000000}]'),
        ("waves", 'files = "good.npz"\nloads = [{kind = "sine", waves = [1e308, nan]}]'),
        ("missing", 'files = "good.npz"\nmissing = [' + "1," * 100_000 + "]"),
    ):  # fmt: skip
        yield f"{name}.toml", _text(content)
    yield "pipe.toml", os.mkfifo
    yield "device.toml", lambda path: path.symlink_to("/dev/zero")
