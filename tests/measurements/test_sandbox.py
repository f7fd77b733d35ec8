import ctypes
import hashlib
import io
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import psutil
import pytest

from nipde.errors import MeasurementError, MissingExtraError
from nipde.measurements.formats import OURS, Format
from nipde.measurements.formats.server import LENGTH
from nipde.measurements.parse import parse
from nipde.measurements.sandbox import Limits, Sandbox, sandbox
from tests.measurements.damaged_files import mutated, valid_files
from tests.measurements.patience import PATIENCE, processor_seconds, wait_until
from tests.measurements.refused import refused


def ours(name: str) -> list[Format]:
    return [format for format in OURS if format.name == name]


def npy(header: str, data: bytes = b"") -> bytes:
    """An array file with any header at all."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def zip_bomb(path: Path) -> None:
    zipped(path, **{"x.npy": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (8388608,)}", bytes(2**26))})


def parent_member(path: Path) -> None:
    zipped(path, **{"../x.npy": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", bytes(8))})


def huge_shape(path: Path) -> None:
    zipped(
        path, **{"x.npy": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,)}", bytes(8))}
    )


def overflowing_shape(path: Path) -> None:
    zipped(path, **{"x.npy": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}")})


def negative_shape(path: Path) -> None:
    zipped(path, **{"x.npy": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", bytes(8))})


def object_array(path: Path) -> None:
    np.savez(path, x=np.array([{"a": 1}, None], dtype=object))


def pickled_member(path: Path) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([print], dtype=object))
    zipped(path, **{"x.npy": buffer.getvalue()[buffer.getvalue().index(b"\n") + 1 :]})


def structured_array(path: Path) -> None:
    np.savez(path, x=np.zeros(3, dtype=[("a", "f8"), ("b", "i4")]))


def complex_array(path: Path) -> None:
    np.savez(path, x=np.zeros(3, dtype=complex))


def not_an_array(path: Path) -> None:
    zipped(path, **{"run.py": b"print('hello')"})


def twice_the_same(path: Path) -> None:
    np.savez(path, x=np.zeros(3))
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("x.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", bytes(8)))


def too_many_values(path: Path) -> None:
    zipped(path, **{"x.npy": npy("{'descr': '|i1', 'fortran_order': False, 'shape': (2000000,)}", bytes(2_000_000))})


def header_that_is_code(path: Path) -> None:
    zipped(path, **{"x.npy": npy("{'descr': __import__('os').getcwd(), 'fortran_order': False, 'shape': (1,)}")})


def units_that_are_no_mapping(path: Path) -> None:
    np.savez(path, x=np.zeros(3), units=np.array("[1, 2]"))


NPZ = [
    zip_bomb, parent_member, huge_shape, overflowing_shape, negative_shape, object_array, pickled_member,
    structured_array, complex_array, not_an_array, twice_the_same, too_many_values, header_that_is_code,
    units_that_are_no_mapping,
]  # fmt: skip


@pytest.mark.parametrize("craft", NPZ, ids=lambda craft: craft.__name__)
def test_a_crafted_npz_is_refused_quickly(tmp_path, craft):
    craft(tmp_path / "crafted.npz")
    np.savez(tmp_path / "good.npz", x=np.zeros(3))
    parse(tmp_path / "good.npz")  # the child is started by its first file
    hangs, start = sandbox().hangs, processor_seconds()
    with refused(message="crafted.npz"):
        parse(tmp_path / "crafted.npz", limits=Limits(seconds=PATIENCE, values=2**20))
    assert processor_seconds() - start < 5
    assert sandbox().hangs == hangs


def external_link(file, canary):
    file["x"] = h5py.ExternalLink(canary, "/x")


def external_link_in_a_group(file, canary):
    file.create_group("a/b")["x"] = h5py.ExternalLink(canary, "/x")


def external_storage(file, canary):
    file.create_dataset("x", shape=(1,), dtype="f8", external=[(canary, 0, 8)])


def virtual_dataset(file, canary):
    layout = h5py.VirtualLayout(shape=(3,), dtype="f8")
    layout[:] = h5py.VirtualSource(canary, "x", shape=(3,))
    file.create_virtual_dataset("x", layout)


def unlimited_virtual_dataset(file, canary):
    layout = h5py.VirtualLayout(shape=(3,), dtype="f8", maxshape=(None,))
    source = h5py.VirtualSource(canary, "x", shape=(3,), maxshape=(None,))
    layout[: h5py.h5s.UNLIMITED] = source[: h5py.h5s.UNLIMITED]
    file.create_virtual_dataset("x", layout)


def soft_link_loop(file, canary):
    file["a"] = h5py.SoftLink("/b")
    file["b"] = h5py.SoftLink("/a")


def soft_link_through_an_external_one(file, canary):
    file["a"] = h5py.SoftLink("/b/x")
    file["b"] = h5py.ExternalLink(canary, "/")


def only_text(file, canary):
    file["x"] = "nothing to compute with"


def huge_dataset(file, canary):
    file.create_dataset("x", shape=(2**40,), dtype="f8", chunks=(1024,), compression="gzip")


HDF5 = [
    external_link, external_link_in_a_group, external_storage, virtual_dataset, unlimited_virtual_dataset,
    soft_link_loop, soft_link_through_an_external_one, only_text, huge_dataset,
]  # fmt: skip


class Watch:
    """Tells whether anybody opened a file, by asking the kernel."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._queue = libc.inotify_init1(os.O_NONBLOCK)
        assert libc.inotify_add_watch(self._queue, os.fsencode(path), 0x20) > 0  # IN_OPEN

    def opened(self) -> bool:
        try:
            return bool(os.read(self._queue, 4096))
        except BlockingIOError:
            return False


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
@pytest.mark.parametrize("suffix", [".h5", ".nc", ".mat"])
@pytest.mark.parametrize("craft", HDF5, ids=lambda craft: craft.__name__)
def test_a_crafted_hdf5_file_is_refused_and_opens_no_other(tmp_path, craft, suffix):
    canary = tmp_path / "canary.h5"
    with h5py.File(canary, "w") as file:
        file["x"] = np.arange(3.0)
    with h5py.File(tmp_path / f"crafted{suffix}", "w") as file:
        craft(file, str(canary))
    watch = Watch(canary)
    with refused(message="crafted"):
        parse(tmp_path / f"crafted{suffix}")
    assert not watch.opened()
    canary.read_bytes()
    assert watch.opened()  # the watch itself works


def test_groups_that_hold_each_other_are_walked_once(tmp_path):
    with h5py.File(tmp_path / "loop.h5", "w") as file:
        file["a/x"] = np.arange(3.0)
        file["a/again"] = file["/"]
    assert set(parse(tmp_path / "loop.h5").arrays) == {"a/x"}


def test_references_that_lead_back_end(tmp_path):
    with h5py.File(tmp_path / "loop.mat", "w") as file:
        cell = file.create_dataset("x", (1, 1), dtype=h5py.ref_dtype)
        cell[0, 0] = cell.ref
    with refused(expected="8 structures"):
        parse(tmp_path / "loop.mat")


def test_entities_in_xml_are_refused(tmp_path):
    lines = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    (tmp_path / "laughs.vtu").write_text(
        f'<?xml version="1.0"?><!DOCTYPE v [<!ENTITY a0 "ha">{lines}]><VTKFile>&a9;</VTKFile>'
    )
    with refused(got="entities"):
        parse(tmp_path / "laughs.vtu")


@pytest.fixture(scope="module")
def five(tmp_path_factory) -> bytes:
    """A valid MATLAB file."""
    folder = tmp_path_factory.mktemp("valid")
    valid_files(folder)
    return (folder / "five.mat").read_bytes()


@pytest.mark.parametrize("seed", [65, 327, 467])
def test_a_file_that_crashes_scipy_is_an_ordinary_error(tmp_path, five, seed):
    (tmp_path / "crash.mat").write_bytes(mutated(five, np.random.default_rng(seed)))
    (tmp_path / "good.mat").write_bytes(five)
    with refused(message="crash.mat"):
        parse(tmp_path / "crash.mat", format="mat")
    assert "u" in parse(tmp_path / "good.mat").arrays


def test_a_file_that_takes_too_long_is_an_ordinary_error_and_the_next_one_is_read(tmp_path):
    (tmp_path / "long.csv").write_text("x\n" + "1\n" * 2_000_000)
    (tmp_path / "short.csv").write_text("x\n1\n")
    box = Sandbox()
    with refused(message="long.csv", expected="0.05 s"):
        box.read(tmp_path / "long.csv", candidates=lambda start: ours("csv"), limits=Limits(seconds=0.05))
    _, _, contents = box.read(tmp_path / "short.csv", candidates=lambda start: ours("csv"), limits=Limits())
    box.close()
    assert box.hangs == 1
    np.testing.assert_array_equal(contents.arrays["x"], [1.0])


def test_a_file_that_takes_too_much_memory_is_an_ordinary_error(tmp_path):
    (tmp_path / "large.csv").write_text("x\n" + "1\n" * 16_000_000)  # whatever the child has loaded before
    with refused(message="large.csv", expected="0.25 GiB", remedy="memory="):
        parse(tmp_path / "large.csv", limits=Limits(seconds=PATIENCE, memory=2**28))


def test_more_values_than_allowed_are_refused(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros(100))
    with refused(got="100", remedy="Limits(values="):
        parse(tmp_path / "x.npz", limits=Limits(values=99))


def test_a_killed_child_is_replaced(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    parse(tmp_path / "x.npz")
    server = sandbox()._server
    assert server is not None
    server.kill()
    server.wait()
    parse(tmp_path / "x.npz")
    assert sandbox()._server is not server


def test_threads_share_the_child(tmp_path):
    for number in range(8):
        np.savez(tmp_path / f"{number}.npz", x=np.full(1000, number))
    found = {}

    def read(number: int) -> None:
        for _ in range(3):
            found[number] = parse(tmp_path / f"{number}.npz").arrays["x"]

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((found[number] == number).all() for number in range(8))


FORKED = """
import os, sys, threading
from nipde.measurements.formats.server import LENGTH
from nipde.measurements.parse import parse
from nipde.measurements.sandbox import sandbox
parse(sys.argv[1]); first = sandbox()._server.pid; folder = sandbox()._folder
pid = os.fork()
if pid == 0:
    parse(sys.argv[1]); own = sandbox()._server.pid != first and sandbox()._folder != folder
    sandbox().close(); os._exit(not own)
assert os.waitpid(pid, 0)[1] == 0
pid = os.fork()
if pid == 0: sys.exit(0)  # an ordinary end, with everything that is done at exit
assert os.waitpid(pid, 0)[1] == 0
parse(sys.argv[1]); assert sandbox()._server.pid == first and os.path.isdir(folder)
locked, forked = threading.Event(), threading.Event()
held = threading.Thread(target=lambda: sandbox()._lock.acquire() and locked.set() or forked.wait())
held.start(); locked.wait()
pid = os.fork()  # while another thread is reading
if pid == 0: sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0; forked.set(); held.join(); sandbox()._lock.release()
parse(sys.argv[1]); assert sandbox()._server.pid == first
print(folder)
"""


def test_a_fork_has_a_child_of_its_own_and_leaves_its_parents_alone(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    ended = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path / "x.npz")], timeout=2 * PATIENCE, capture_output=True
    )
    assert ended.returncode == 0, ended.stderr
    assert not Path(ended.stdout.decode().strip()).exists()


def test_the_digest_is_that_of_the_bytes_that_were_parsed(tmp_path):
    """A writer rewrites the table all the time: reading it gives one of its versions, or says that it changes."""
    texts = {value: "x\n" + f"{value}\n" * 20_000 for value in range(1, 10)}
    path, done, outcomes = tmp_path / "live.csv", threading.Event(), Counter()
    path.write_text(texts[1])

    def write() -> None:
        while not done.wait(0.002):
            path.write_text(texts[int(time.monotonic() * 1e3) % 9 + 1])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(40):
            try:
                raw = parse(path)
            except MeasurementError:
                outcomes["refused"] += 1
                continue
            content = "x\n" + "".join(f"{value:g}\n" for value in raw.arrays["x"])
            outcomes["read"] += 1
            assert raw.sha256 == hashlib.sha256(content.encode()).hexdigest()
    finally:
        done.set()
        writer.join()
    assert outcomes["read"] > 0


def test_a_file_replaced_after_it_was_copied_keeps_its_digest(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    digest = hashlib.sha256((tmp_path / "x.npz").read_bytes()).hexdigest()
    ask = Sandbox._ask

    def replaced(self, request, limits):
        np.savez(tmp_path / "x.npz", x=np.ones(3))
        return ask(self, request, limits)

    monkeypatch.setattr(Sandbox, "_ask", replaced)
    raw = parse(tmp_path / "x.npz")
    assert raw.sha256 == digest
    assert not raw.arrays["x"].any()


@pytest.mark.parametrize(
    "reply",
    [
        b"[]", b"{", b"9" * 5000, b"[" * 100_000, b'{"format": 1}', b'{"died": "x"}', b'{"error": 3}',
        b'{"format": "npz", "names": [1], "arrays": [], "units": {}, "attributes": {}}',
        b'{"format": "npz", "names": [], "arrays": [["O", [1]]], "units": {}, "attributes": {}}',
        b'{"format": "npz", "names": [], "arrays": [["<f8", [-1]]], "units": {}, "attributes": {}}',
        b'{"format": "npz", "names": [], "arrays": [["<f8", [1000000000000]]], "units": {}, "attributes": {}}',
        b'{"format": "npz", "names": [], "arrays": [], "units": {"x": {}}, "attributes": {}}',
        b'{"format": "npz", "names": [], "arrays": [], "units": {}, "attributes": {"a": []}}',
    ],
)  # fmt: skip
def test_a_child_that_came_to_harm_is_not_believed(tmp_path, monkeypatch, reply):
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    frames = LENGTH.pack(31) + b'{"confined": [], "bounded": 1} ' + LENGTH.pack(len(reply)) + reply
    program = f"import os, sys, time; sys.stdin.buffer.readline(); os.write(1, {frames!r}); time.sleep(20)"
    monkeypatch.setattr("nipde.measurements.sandbox._START", program)
    box = Sandbox()
    with refused(message="x.npz", expected="readable"):
        box.read(tmp_path / "x.npz", candidates=lambda start: ours("npz"), limits=Limits())
    assert (box.deaths, box._server) == (1, None)


READ_AND_DISCOVER = """
import gc, os, sys, tempfile, threading, time
import psutil
from nipde.measurements.parse import parse
from nipde.measurements.sandbox import sandbox
calls, discoveries, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[5]
me = psutil.Process()
if discoveries:
    import nipde, torch
    torch.set_num_threads(1)
    model = nipde.load("darcy")
def once(discover):
    if not discoveries:
        return parse(file)
    measured = nipde.read(file)
    if discover:
        nipde.discover(measured, model, recommendations=1, piecewise_constant=False)
def held():
    gc.collect()
    for _ in range(100):  # the server's own child may still be ending after its answer
        if len(me.children(recursive=True)) > 1: time.sleep(0.05)
    return me.memory_info().rss, me.num_fds(), len(me.children(recursive=True)), threading.active_count()
def temporary():
    return {one for one in os.listdir(tempfile.gettempdir()) if one.startswith("nipde-")}
for warm in range(int(sys.argv[3])):
    once(discoveries)
before, files = held(), temporary()
failures = []
def several(count, discover):
    for call in range(count):
        try:
            once(call < discover)
        except Exception as error:
            failures.append(repr(error))
threads = [threading.Thread(target=several, args=(calls // 8, 0)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
several(discoveries or calls // 2, discoveries)
for _ in range(3):
    pid = os.fork()
    if pid == 0: once(False); sys.exit(0)
    failures += [] if os.waitpid(pid, 0)[1] == 0 else ["fork"]
after = held()
assert not failures, failures[:3]
assert after[1:] == before[1:], (before, after)
assert temporary() - files <= {os.path.basename(sandbox()._folder)}, temporary() - files
print(after[0] / before[0] - 1, calls, discoveries, before, after)
assert after[0] <= float(sys.argv[4]) * before[0], (before, after)
sandbox().close()
assert not me.children(recursive=True) and sandbox()._folder == ""
"""


@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("calls", "discoveries", "warm", "growth"),
    [("60", "0", "20", "1.02"), pytest.param("500", "500", "30", "1.02", marks=pytest.mark.slow)],
)
def test_many_reads_leave_nothing_behind(tmp_path, calls, discoveries, warm, growth):
    x, rng = np.arange(5.0), np.random.default_rng(0)
    responses = rng.uniform(1, 2, (4, 1, 1)) * np.outer(np.sin(np.pi * x / 4), np.sin(np.pi * x / 4))
    units = np.array('{"x": "mm", "y": "mm", "loads": "N/m^2", "responses": "mm"}')
    file = tmp_path / "measured.npz"
    np.savez(file, x=x, y=x, loads=rng.standard_normal((4, 5, 5)), responses=responses, units=units)
    program = [sys.executable, "-c", READ_AND_DISCOVER, calls, discoveries, warm, growth, str(file)]
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    ended = subprocess.run(program, capture_output=True, text=True, timeout=2900, env=environment)
    assert ended.returncode == 0, ended.stderr
    print(ended.stdout)


def test_the_child_ends_with_its_parent(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    code = (
        "import os, sys; from nipde.measurements.parse import parse; from nipde.measurements.sandbox import sandbox\n"
    )
    code += "parse(sys.argv[1]); print(sandbox()._server.pid, flush=True); os.kill(os.getpid(), 9)"
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.npz")], capture_output=True, timeout=PATIENCE)
    child = int(ended.stdout)

    def has_ended() -> bool:
        try:
            return psutil.Process(child).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    assert wait_until(has_ended)


def test_a_child_that_hangs_ends_after_its_caller_was_killed(tmp_path):
    (tmp_path / "sleeper.py").write_text("import time\ndef parse(path, *, values): time.sleep(600)\n")
    (tmp_path / "x.lab").write_text("x")
    code = (
        "import sys; from pathlib import Path; from nipde.measurements.formats import Format\n"
        "from nipde.measurements.sandbox import Limits, sandbox\n"
        "sys.path.insert(0, sys.argv[1]); box = sandbox(); box._ensure_started(); print(box._server.pid, flush=True)\n"
        "read = lambda start: [Format('sleeper', 'sleeper', ())]\n"
        "box.read(Path(sys.argv[1], 'x.lab'), candidates=read, limits=Limits(seconds=2))"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as caller:
        server = psutil.Process(int(caller.stdout.readline()))
        assert wait_until(server.children)
        fork = server.children()[0]
        caller.kill()
    assert psutil.wait_procs([server, fork], timeout=PATIENCE)[1] == []


def test_the_child_does_not_import_torch():
    code = "import sys\n"
    for format in OURS:
        code += f"import {format.module}\n"
    code += "import nipde.measurements.formats.server, nipde.measurements.parse\nsys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_a_missing_library_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "h5py.py").write_text("raise ModuleNotFoundError('No module named h5py', name='h5py')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.arange(3.0)
    box = Sandbox()
    with refused(MissingExtraError, message="x.h5: No module named h5py", remedy="'nipde[measurements]'"):
        box.read(tmp_path / "x.h5", candidates=lambda start: ours("hdf5"), limits=Limits())
    box.close()
