"""What a parser of a foreign file could do: nothing but read that file. The parser here is one that tries."""

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from nipde.measurements.confinement import available
from nipde.measurements.formats import Format
from nipde.measurements.sandbox import Limits, Sandbox
from tests.measurements.patience import PATIENCE

#: A reader whose `parse` tries everything and says what came of it.
INTRUDER = """
import json, os, signal, socket, subprocess, threading
import numpy as np
from nipde.measurements.formats import Contents

def parse(path, *, values):
    place = json.loads(path.read_text())
    def thread():
        one = threading.Thread(target=print)
        one.start()
        one.join()
    acts = {
        "connect": lambda: socket.create_connection(("127.0.0.1", place["port"]), 2),
        "local socket": lambda: socket.socket(socket.AF_UNIX).connect(place["folder"] + "/socket"),
        "open outside": lambda: open(place["folder"] + "/precious").read(),
        "open system": lambda: open("/etc/passwd").read(),
        "list outside": lambda: os.listdir(place["folder"]),
        "environment of the caller": lambda: open(f"/proc/{place['caller']}/environ", "rb").read(),
        "create": lambda: open(place["folder"] + "/new", "w"),
        "create beside": lambda: open(str(path) + ".new", "w"),
        "write": lambda: open(place["folder"] + "/precious", "r+").write("gone"),
        "truncate": lambda: os.truncate(place["folder"] + "/precious", 0),
        "remove": lambda: os.unlink(place["folder"] + "/precious"),
        "rename": lambda: os.rename(place["folder"] + "/precious", place["folder"] + "/other"),
        "rights": lambda: os.chmod(place["folder"] + "/precious", 0o777),
        "times": lambda: os.utime(place["folder"] + "/precious", (0, 0)),
        "exec": lambda: os.execv("/bin/true", ["true"]),
        "start": lambda: subprocess.run(["/bin/true"]),
        "fork": lambda: os.fork() or os._exit(0),
        "signal to the caller": lambda: os.kill(place["caller"], 0),
        "signal to the server": lambda: os.kill(os.getppid(), signal.SIGSTOP),
        "secret": lambda: os.environ["AWS_SECRET_ACCESS_KEY"],
        "import": lambda: __import__("wave"),
        "thread": thread,
        "read the file": path.read_bytes,
    }
    contents = Contents(values, arrays={"x": np.zeros(1)})
    for name, act in acts.items():
        try:
            act()
            contents.attributes[name] = "done"
        except (OSError, KeyError) as error:
            contents.attributes[name] = type(error).__name__
    return contents
"""
HARMLESS = {"import", "thread", "read the file"}


def attempts(tmp_path: Path, monkeypatch) -> tuple[dict[str, object], Sandbox]:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "intruder.py").write_text(INTRUDER)
    (tmp_path / "precious").write_text("precious")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    box = Sandbox()
    with socket.socket() as server, socket.socket(socket.AF_UNIX) as local:
        server.bind(("127.0.0.1", 0))
        server.listen()
        local.bind(str(tmp_path / "socket"))
        local.listen()
        place = {"port": server.getsockname()[1], "folder": str(tmp_path), "caller": os.getpid()}
        (tmp_path / "a.lab").write_text(json.dumps(place))
        intruder = Format("intruder", "intruder", (".lab",))
        try:
            _, _, contents = box.read(tmp_path / "a.lab", candidates=lambda start: [intruder], limits=Limits())
        finally:
            box.close()
    return contents.attributes, box


@pytest.mark.skipif(len(available()) < 2, reason="a kernel without Landlock or seccomp")
def test_a_parser_can_read_its_file_and_nothing_else(tmp_path, monkeypatch):
    came_of, box = attempts(tmp_path, monkeypatch)
    assert {name for name, outcome in came_of.items() if outcome == "done"} == HARMLESS
    assert {outcome for name, outcome in came_of.items() if name not in HARMLESS} == {"PermissionError", "KeyError"}
    assert box.confined == tuple(available())
    assert (tmp_path / "precious").read_text() == "precious"
    assert {one.name for one in tmp_path.iterdir()} == {"modules", "precious", "socket", "a.lab"}


def test_the_environment_is_empty_everywhere(tmp_path, monkeypatch):
    assert attempts(tmp_path, monkeypatch)[0]["secret"] == "KeyError"


def test_a_system_without_means_says_so():
    program = "import sys; sys.platform = 'darwin'; from nipde.measurements import confinement as c\n"
    program += "sys.exit(c.available() != [] or c.confine(['/']) != [])"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)


#: What Windows lacks, taken away from the caller and from the child.
LACKING = textwrap.dedent("""
    import os, select, signal, sys
    import psutil, subprocess, tempfile, shutil, threading, numpy
    for module in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[module] = None
    for name in ("fork", "register_at_fork", "killpg", "readv", "memfd_create", "O_NONBLOCK"):
        delattr(os, name)
    for name in ("SIGUSR1", "SIGUSR2"):
        delattr(signal, name)
    del select.poll
""")
READS = textwrap.dedent("""
    from nipde.measurements import sandbox
    sandbox._START = LACKING + sandbox._START
    from nipde.errors import MeasurementError
    from nipde.measurements.formats import Format
    from nipde.measurements.parse import parse
    from nipde.measurements.sandbox import Limits
    from pathlib import Path
    folder = Path(sys.argv[1])
    first = None
    for _ in range(2):
        for name in ("a.npz", "a.csv", "a.h5"):
            assert parse(folder / name).arrays["x"].tolist() == [0, 1, 2], name
        first = first or sandbox.sandbox()._server.pid
    assert sandbox.sandbox()._server.pid == first  # paid once
    for limits, kind in ((Limits(seconds=0.3), "hangs"), (Limits(seconds=100, memory=2**28), "memory")):
        try:
            parse(folder / f"{kind}.lab", limits=limits, format="busy")
        except MeasurementError as error:
            print(kind, error.expected)
        assert parse(folder / "a.npz").arrays["x"].tolist() == [0, 1, 2]
    print("crash", end=" ")
    try:
        parse(folder / "crash.lab", format="busy")
    except MeasurementError as error:
        print("ordinary")
    assert parse(folder / "a.npz").format == "npz"
""")
BUSY = """
import os, time
from nipde.measurements.formats import Format
FORMAT = Format("busy", module=__name__, suffixes=(".lab",))

def parse(path, *, values):
    kept = []
    while path.stem == "hangs":
        time.sleep(0.1)
    while path.stem == "memory":
        kept.append(b"x" * 2**24)
    os.abort()
"""


def test_files_are_read_where_there_is_no_fork_and_no_resource(tmp_path):
    import h5py

    np.savez(tmp_path / "a.npz", x=np.arange(3.0))
    (tmp_path / "a.csv").write_text("x\n0\n1\n2\n")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3.0)
    for name in ("hangs", "memory", "crash"):
        (tmp_path / f"{name}.lab").write_text("busy")
    (tmp_path / "busy.py").write_text(BUSY)
    (tmp_path / "busy-1.0.dist-info").mkdir()
    (tmp_path / "busy-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: busy\nVersion: 1.0\n")
    (tmp_path / "busy-1.0.dist-info" / "entry_points.txt").write_text("[nipde.formats]\nbusy = busy:FORMAT\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    ended = subprocess.run(
        [sys.executable, "-c", f"LACKING = {LACKING!r}\n{LACKING}\n{READS}", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=2 * PATIENCE,
    )  # fmt: skip
    assert ended.stdout.splitlines() == ["hangs at most 0.3 s", "memory at most 0.25 GiB", "crash ordinary"], (
        ended.stderr
    )
