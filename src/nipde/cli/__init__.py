"""The `nipde` command: one file per verb, imported when it is run."""

import os
import sys
from importlib import import_module

from nipde import __version__
from nipde.errors import NipdeError, UsageError, meant

#: Environment variable that shows tracebacks.
DEBUG = "NIPDE_DEBUG"
#: How the sentence on an error begins that is a defect of nipde.
UNFORESEEN = "A defect of nipde,"
#: By what they work on: each with one line of help.
MEASURED = {
    "check": "say how a file is understood: columns, units, grid, gaps, noise; nothing is computed",
    "discover": "map the property from a file, with error bounds and a report page",
    "design": "say which load to apply in the next test, to learn most from it",
}
SIMULATED = {
    "generate": "simulate many bodies with random properties, and store them as an archive",
    "info": "describe an archive: equation, fields, how it was made",
    "show": "plot one body of an archive: its property, a load, the response",
    "verify": "check that no file of an archive, or of a result of discover, is damaged",
    "export": "write an archive as HDF5 in the layout of The Well",
    "estimate": "apply a method to one body of an archive, and test it on loads it has not seen",
    "evaluate": "errors of a method over many bodies of an archive, with confidence intervals",
}
MODELS = {
    "train": "train a model on an archive; can be stopped and resumed",
    "publish": "write a trained model with its calibration and a description, to share it",
}
VERBS = MEASURED | SIMULATED | MODELS


def _listed(verbs: dict[str, str]) -> str:
    return "\n".join(f"  {verb:10}{help}" for verb, help in verbs.items())


HELP = f"""usage: nipde COMMAND [options]

nipde {__version__} maps a property of a body from tests on it: transmissivity from pumping rates and heads, tension
from pressure and deflection, conductivity from heat sources and temperature. In every test a load is applied (pumping,
pressure, heat) and the response is measured (head, deflection, temperature), both over a whole rectangle, with the
response zero on its sides. The result is the property at every point with error bounds, and responses to other loads.

your measurements:
{_listed(MEASURED)}

simulated data:
{_listed(SIMULATED)}

models, where those that come with nipde do not fit:
{_listed(MODELS)}

nipde COMMAND --help explains a command, nipde --version prints the version.

first steps with a table of pumping tests, one row for each test and point:
  nipde check heads.csv --load rate --response head --units x=m,load=m/d,response=m
  nipde discover heads.csv --load rate --response head --units x=m,load=m/d,response=m --out result
  nipde design heads.csv --load rate --response head --units x=m,load=m/d,response=m --count 3

first steps with simulated data:
  nipde generate darcy --grid 21 --systems 100 --pairs 100 --seed 0 --out darcy21
  nipde estimate darcy21 --system 90 --estimator adjoint-tv --noise 0.01 --out estimate.png
  nipde evaluate darcy-two-phase --data darcy21 --pairs 20 --noise 0.01
"""


def main(words: list[str] | None = None) -> int:
    """Run one command; what goes wrong is one sentence on stderr and exit code 2, with DEBUG set a traceback too."""
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    if words[0] == "--version":
        print(__version__)
        return 0
    os.environ.setdefault("MPLBACKEND", "Agg")  # figures go to files, which needs no screen
    try:
        if words[0] not in VERBS:
            advice = meant(words[0], VERBS, otherwise="see nipde --help")
            raise UsageError(expected=f"a command among {', '.join(VERBS)}", got=repr(words[0]), remedy=advice)
        code: int = import_module(f"nipde.cli.{words[0]}").run(words[1:])
        sys.stdout.flush()  # a reader that is gone is noticed here
    except KeyboardInterrupt:
        kept = "; finished work is kept: the same command resumes it"
        print(f"stopped{kept if words[0] in ('generate', 'train') else ''}", file=sys.stderr)
        return 130
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        print(_sentence(error).encode("utf-8", "backslashreplace").decode(), file=sys.stderr)
        return 2
    return code


def _sentence(error: Exception) -> str:
    """What went wrong; of an error that nobody foresaw also how to report it."""
    text = " ".join(str(error).split())
    if isinstance(error, NipdeError):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, OSError | MemoryError):
        return f"{type(error).__name__}: {text or 'not enough memory'}"
    return f"{UNFORESEEN} {type(error).__name__}: {text}. Please report it with what {DEBUG}=1 nipde ... prints"
