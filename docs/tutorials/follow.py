"""Follows a tutorial as a reader would: files are written, commands and Python run, all in one folder, in order.

The page on the site shows what came out, and a test follows the same pages: one that cannot be followed fails both.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

#: A block that is run, or, with a caption, the file of that name; `:class: fails` marks a command that must fail.
BLOCK = re.compile(
    r"^```(?:\{code-block\} )?(?P<language>bash|python|toml)\n(?P<options>(?::\w+:[^\n]*\n)*)\n?(?P<code>.*?)^```\n",
    re.DOTALL | re.MULTILINE,
)
PICTURE = re.compile(r"^```\{(?:image|figure)\} followed/[\w-]+/(\S+)$", re.MULTILINE)
END = "end of block, failed: "
#: One Python for all Python of a page, as a reader's session is one.
SESSION = f"""
import json, sys, traceback
names = {{"__name__": "__main__"}}
for line in sys.stdin:
    failed = False
    try:
        exec(compile(json.loads(line), "<tutorial>", "exec"), names)
    except BaseException:
        failed = True
        traceback.print_exc(file=sys.stdout)
    print("{END}" + str(failed), flush=True)
"""


class CannotFollow(Exception):
    """A block of a tutorial did not do what the page says."""


class Follower:
    """A reader in a folder: one Python session, and a shell for every block of commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = {"MPLBACKEND": "Agg", "COLUMNS": "100", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
        self.environment = {**os.environ, **environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self.python = subprocess.Popen(
            [sys.executable, "-u", "-c", SESSION], cwd=folder, env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self.python.stdin.close()
        self.python.stdout.close()
        self.python.wait()

    def block(self, match: re.Match[str]) -> str:
        """The block as it stands, and below it what it printed."""
        options, code = dict(re.findall(r":(\w+): *(.*)", match["options"])), match["code"]
        if "caption" in options:
            (self.folder / options["caption"]).write_text(code)
            return match[0]
        if match["language"] == "toml":
            return match[0]
        printed, failed = (self._shell if match["language"] == "bash" else self._session)(code)
        printed = printed.replace(f"{self.folder}/", "").rstrip()
        if failed != (options.get("class") == "fails"):
            raise CannotFollow(f"{code}\n{printed}")
        return f"{match[0]}\n```{{code-block}} text\n:class: printed\n\n{printed}\n```\n" if printed else match[0]

    def _shell(self, code: str) -> tuple[str, bool]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code], cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.stdout, done.returncode != 0

    def _session(self, code: str) -> tuple[str, bool]:
        self.python.stdin.write(json.dumps(code) + "\n")
        self.python.stdin.flush()
        lines = []
        for line in self.python.stdout:
            before, end, failed = line.partition(END)
            lines.append(before)
            if end:
                return "".join(lines), failed.strip() == "True"
        return "".join(lines) + "Python ended.", True


def followed(text: str, folder: Path) -> str:
    """A page with what its blocks print; `folder` holds the checkout under that name, and afterwards all they wrote."""
    (folder / "checkout").symlink_to(Path(__file__).parents[2])
    with Follower(folder) as reader:
        found = BLOCK.sub(reader.block, text)
    missing = [name for name in PICTURE.findall(text) if not (folder / name).is_file()]
    if missing:
        raise CannotFollow(f"the page shows {missing}, which none of its blocks wrote")
    return found


def keep_pictures(text: str, folder: Path, into: Path) -> None:
    """Copy what the page shows to where it shows it from."""
    into.mkdir(parents=True, exist_ok=True)
    for name in PICTURE.findall(text):
        shutil.copy(folder / name, into / name)
