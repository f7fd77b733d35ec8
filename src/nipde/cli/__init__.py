"""The `nipde` command: one file per verb, loaded only when it is the one asked for."""

import sys
from importlib import import_module

from nipde import __version__
from nipde.errors import NipdeError, meant

VERBS = {
    "generate": "draw systems, solve them, store them as an archive",
    "info": "print an archive's card: what is inside, how it was made",
    "show": "draw one system: hidden field, a load, its response",
    "verify": "check every byte of an archive, or compute systems again",
    "estimate": "estimate a system's kernel from some of its pairs, test it on the others",
    "train": "train an estimator on an archive's training systems; stops and goes on at any moment",
    "evaluate": "measure an estimator's errors over test systems, with intervals",
    "discover": "from a file of measurements to what is inside, with a page to look at",
    "design": "rank the loads worth applying next",
    "report": "the page of a measurement alone",
    "publish": "write a run's weights with bands, alarm and a card, to share them",
    "export": "write an archive in the layout of others: The Well's HDF5",
    "bench": "measure, and write what was measured to results/",
}

HELP = f"""usage: nipde VERB [options]

nipde {__version__}: from measured loads and responses to the kernel of an unknown law.

verbs:
{chr(10).join(f"  {verb:10}{help}" for verb, help in VERBS.items())}

  nipde VERB --help explains a verb, nipde --version prints the version.

examples:
  nipde generate darcy --grid 21 --systems 100 --pairs 100 --seed 0 --out darcy21
  nipde info darcy21
  nipde show darcy21 --system 3 --out system3.png
  nipde verify darcy21 --rebuild 5
  nipde estimate darcy21 --system 90 --estimator adjoint-tv --noise 0.01 --out estimate.png
  nipde discover measurement.npz --weights darcy --out found
  nipde discover points.csv --units x=mm,y=mm,load=N/mm^2,response=mm --nodes 21 --out found
  nipde design measurement.npz --count 3
  nipde evaluate darcy-two-phase --data darcy21 --pairs 20 --noise 0.01
  nipde evaluate empirical-bayes --data darcy21 --pairs 50 --noise 0.01 --json empirical-bayes.json
"""


def main(words: list[str] | None = None) -> int:
    """Run one command; an error meant for a person is printed as one sentence, and the exit code is 2."""
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    if words[0] == "--version":
        print(__version__)
        return 0
    if words[0] not in VERBS:
        advice = meant(words[0], VERBS, otherwise="see nipde --help")
        print(f"expected a verb among {', '.join(VERBS)}, got {words[0]!r}: {advice}", file=sys.stderr)
        return 2
    try:
        code: int = import_module(f"nipde.cli.{words[0]}").run(words[1:])
    except NipdeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = "; what is finished is kept: the same command continues from there"
        print(f"stopped{kept if words[0] in ('generate', 'train', 'bench') else ''}", file=sys.stderr)
        return 130
    return code
