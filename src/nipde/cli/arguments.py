"""Parsers of the verbs, and the kinds of their options: what an option cannot be is said before any work begins."""

import math
import os
import re
import tempfile
from argparse import SUPPRESS, Action, ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from fsspec import available_protocols
from jsonargparse import ActionConfigFile, ArgumentParser, DefaultHelpFormatter

from nipde.errors import UsageError

#: Endings of pictures.
PICTURES = (".png", ".svg", ".pdf")
#: Addresses to which nothing can be written.
READ_ONLY = ("http", "https", "data", "git", "github")
#: A file of options is smaller.
CONFIG_BYTES = 10_000
CONFIG_BRACKETS = 200
#: Python types as an error names them.
WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "dict": "JSON in braces",
         "tuple": "a list such as [1,2]", "NoneType": ""}  # fmt: skip

#: From the text of an option to its value.
Kind = Callable[[Any], Any]


def parser(verb: str, description: str, *, example: str = "") -> ArgumentParser:
    """Parser of one verb; `example` are the words after `nipde VERB`."""
    epilog = f"example: nipde {verb} {example}" if example else None
    return _Parser(prog=f"nipde {verb}", description=description, epilog=epilog, formatter_class=_Help)


def add_archive(to: ArgumentParser) -> None:
    """The archive a verb reads."""
    to.add_argument("path", type=address, help="folder of the archive, or an address such as s3://bucket/name")
    add_storage_options(to)


def add_storage_options(to: ArgumentParser) -> None:
    """What fsspec needs to reach an address."""
    help = 'JSON for fsspec, e.g. \'{"endpoint_url": "http://127.0.0.1:9000"}\''
    to.add_argument("--storage-options", type=dict[str, Any], default={}, help=help)


def whole(least: int = 1, most: float = math.inf) -> Kind:
    """A whole number from `least` to `most`."""
    text = f"from {least} to {most}" if most < math.inf else f"{least} or more"
    return _kind(int, lambda value: least <= value <= most, f"a whole number, {text}")


def _kind(convert: Callable[[str], Any], holds: Callable[[Any], bool], expected: str) -> Kind:
    def value_of(text: Any) -> Any:
        try:
            value = convert(str(text))
        except ValueError:
            value = None
        if value is None or not holds(value):
            raise _Unsuited(expected, text)
        return value

    return value_of


non_negative = _kind(float, lambda value: 0 <= value < math.inf, "a number, 0 or more")
between_0_and_1 = _kind(float, lambda value: 0 < value < 1, "a number between 0 and 1")


def array_job(text: Any) -> str:
    """A job and how many there are: 2/8."""
    numbers = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text), re.ASCII)
    if numbers is None or not 1 <= int(numbers[1]) <= int(numbers[2]):
        raise _Unsuited("job and number of jobs, from 1/4 to 4/4", text)
    return str(text)


def address(text: Any) -> str:
    """Of an archive: a folder, or a URL that fsspec can open."""
    scheme, separator, rest = str(path(text)).rpartition("::")[2].partition(":/")
    if separator and (not rest.strip("/") or scheme not in available_protocols()):
        raise _Unsuited("an address such as s3://bucket/name", text)
    return str(text)


def new_address(text: Any) -> str:
    """Of an archive to write."""
    scheme, separator, _ = address(text).rpartition("::")[2].partition("://")
    if separator and scheme in READ_ONLY:
        raise _Unsuited("a folder or an address that can be written to, such as s3://bucket/name", text)
    return str(text) if separator else str(new_folder(text))


def new_file(*endings: str) -> Kind:
    """A file that can be written; its folders may be missing."""

    def file(text: Any) -> Path:
        place = path(text)
        if (place.exists() and not place.is_file()) or (endings and place.suffix.lower() not in endings):
            raise _Unsuited(f"a file ending in {', '.join(endings)}" if endings else "a file", text)
        return _writable(place, place.parent)

    return file


def new_folder(text: Any) -> Path:
    """A folder that can be written; it may be missing, and those above it."""
    place = path(text)
    return _writable(place, place)


def path(text: Any) -> Path:
    """A file or folder."""
    if not str(text).strip() or "\0" in str(text):
        raise _Unsuited("a file or folder", text)
    return Path(text)


def _writable(place: Path, folder: Path) -> Path:
    """Raise unless a file can be made in the folder, or in the one where it will be made."""
    try:
        existing = next(one for one in (folder, *folder.absolute().parents) if os.path.lexists(one))
        tempfile.TemporaryFile(dir=existing).close()
        place.exists()  # raises where the name is too long
    except OSError as error:
        raise _Unsuited("a place that can be written to", f"{place} ({error.strerror})") from error
    return place


def device(text: Any) -> str:
    """Where tensors live, such as cuda:1; empty for what suits the machine."""
    import torch  # not for the help of verbs that need none

    try:
        usable = not text or torch.empty(1, device=text).add(1).device.type != "meta"
    except (RuntimeError, AssertionError, NotImplementedError):
        usable = False
    if not usable:
        raise _Unsuited("a device that PyTorch has on this machine, such as cpu or cuda", text)
    return str(text)


def add_device(to: ArgumentParser) -> None:
    """Where a network computes."""
    to.add_argument("--device", type=device, default="", help="where weights compute, such as cuda; the processor else")


class _Unsuited(ArgumentTypeError, ValueError):
    """What the parser expects of a kind of option; it adds the option's name."""

    def __init__(self, expected: str, got: Any) -> None:
        super().__init__(f"expected {expected}, got {str(got)[:200]!r}")


class ConfigFile(ActionConfigFile):  # type: ignore[misc]
    """An option that names a file with other options: regular and not large."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Read it."""
        if not os.path.isfile(values) or not _is_small(Path(values)):
            raise UsageError(f"{option_string}", expected="a small file of options", got=repr(str(values)[:200]))
        super().__call__(parser, namespace, values, option_string)


def _is_small(file: Path) -> bool:
    """Whether parsing it takes no time: few bytes, few brackets."""
    return file.stat().st_size <= CONFIG_BYTES and sum(map(file.read_bytes().count, (b"[", b"{"))) <= CONFIG_BRACKETS


class _Parser(ArgumentParser):  # type: ignore[misc]
    """Whatever it cannot read is a UsageError of one line."""

    def parse_args(self, *words: Any, **named: Any) -> Any:
        try:
            return super().parse_args(*words, **named)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise error if isinstance(error, UsageError) else self._refusal(str(error)) from error

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        raise self._refusal(message) from ex

    def _refusal(self, message: str) -> UsageError:
        """In plain words: `--workers: expected a whole number, got x`."""
        text = re.sub(r'Parser key "(.+?)":', lambda key: f"--{key[1].replace('_', '-')}:", message)
        text = text.removeprefix("argument ")
        if value := re.search(r"(?:Got|Given) value: (.*)", text):
            kinds = [_in_words(kind) for kind in re.findall(r"Expected an? (.*?)(?:\. Got|\n)", text)]
            text = f"{text.split(': ')[0].split(':')[0]}: expected {' or '.join(filter(None, kinds))}, got {value[1]}"
        return UsageError(" ".join(text.split())[:500], remedy=f"see {self.prog} --help")


def _in_words(kind: str) -> str:
    """A Python type in plain words."""
    if kind.startswith("typing.Literal"):
        return f"one of {kind.removeprefix('typing.Literal')}"
    return WORDS.get(kind.removeprefix("<class '").removesuffix("'>"), kind)


class _Help(DefaultHelpFormatter):  # type: ignore[misc]
    """Help texts with the default where there is one, without Python types."""

    def _get_help_string(self, action: Action) -> str | None:
        shown = action.default not in (None, "", False, {}, SUPPRESS)
        return f"{action.help} (default: {action.default})" if shown else action.help
