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
VERBS = {
    "check": "say how a file of measurements is read, and stop",
    "discover": "identify the coefficient field from a file of measurements, with bands and a report page",
    "design": "recommend the loads to apply next",
    "generate": "simulate systems with random coefficients and store them as an archive",
    "info": "describe an archive: its law, its fields, how it was made",
    "show": "plot one system of an archive: coefficient, a load, its response",
    "verify": "check the checksums of an archive or a discovery, or compute systems again",
    "estimate": "estimate the kernel of one system of an archive, and test it on held-out pairs",
    "evaluate": "errors of an estimator over the test systems of an archive, with confidence intervals",
    "train": "train an estimator on the training systems of an archive; can be stopped and resumed",
    "publish": "write trained weights with their calibration and a card, to share them",
    "export": "write an archive as HDF5 in the layout of The Well",
}

HELP = f"""usage: nipde VERB [options]

nipde {__version__} identifies the coefficient field of a physical law from measured loads and responses: transmissivity
from pumping rates and heads, tension from pressure and deflection, conductivity from heat sources and temperature.

verbs:
{chr(10).join(f"  {verb:10}{help}" for verb, help in VERBS.items())}

  nipde VERB --help explains a verb, nipde --version prints the version.

first steps, with measurements:
  nipde check heads.csv --load rate --response head --units x=m,load=m/d,response=m
  nipde discover heads.csv --load rate --response head --units x=m,load=m/d,response=m --out result
  nipde design heads.csv --load rate --response head --units x=m,load=m/d,response=m --count 3

with simulated systems:
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
            raise UsageError(expected=f"a verb among {', '.join(VERBS)}", got=repr(words[0]), remedy=advice)
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
