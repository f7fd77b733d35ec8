"""`nipde generate PROBLEM`: simulate systems with random coefficients and store them; the same command resumes."""

import dataclasses

from jsonargparse import ArgumentParser

from nipde.cli.arguments import ConfigFile, add_storage_options, new_address, parser, whole
from nipde.cli.terminal import progress, say
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.data.problems import described, problem, problem_names
from nipde.data.recipe import Recipe
from nipde.errors import UsageError, meant


def run(words: list[str]) -> int:
    """Entry of the verb."""
    if not words or words[0] in ("-h", "--help"):
        say("\n".join([
            "usage: nipde generate PROBLEM [options]", "", "problems:",
            *(f"  {name:12}{text}" for name, text in described()), "",
            "nipde generate PROBLEM --help lists its options",
            "example: nipde generate darcy --grid 21 --systems 100 --pairs 100 --seed 0 --out darcy21",
        ]))  # fmt: skip
        return 0
    if words[0] not in problem_names():
        remedy = meant(words[0], problem_names(), otherwise="see nipde generate --help")
        raise UsageError(expected=f"a problem among {', '.join(problem_names())}", got=repr(words[0]), remedy=remedy)
    recipe = problem(words[0])
    options = _parser(recipe).parse_args(words[1:])
    values = {field.name: options[_name(field)] for field in dataclasses.fields(recipe)}
    plan = Plan(recipe(**values), options.systems, options.seed, options.split, options.shard_systems)
    computed = 0

    def report(ready: int, new: int) -> None:
        nonlocal computed
        computed += new
        advance(ready)

    with progress("systems", plan.systems) as advance:
        archive = generate(
            plan, options.out, workers=options.workers, scheduler=options.scheduler, options=options.storage_options,
            progress=report,
        )  # fmt: skip
    say(f"{len(archive)} systems at {options.out} ({computed} computed now), digest {archive.digest[:16]}")
    return 0


def _parser(recipe: type[Recipe]) -> ArgumentParser:
    options = parser(
        f"generate {recipe.problem}",
        f"{recipe.__doc__} The same command resumes a run that was stopped.",
        example="--grid 21 --systems 100 --pairs 100 --seed 0 --out archive",
    )
    options.add_argument("--config", action=ConfigFile, help="YAML or JSON file with any of these options")
    options.add_argument(
        "--out", type=new_address, required=True, help="folder, or an address such as s3://bucket/name"
    )
    options.add_argument("--systems", type=whole(), default=recipe.systems, help="number of systems")
    for field in dataclasses.fields(recipe):
        flag = "--" + _name(field).replace("_", "-")
        if field.default is False:
            options.add_argument(flag, action="store_true", help=field.metadata["help"])
        else:
            options.add_argument(flag, type=field.type, default=field.default, help=field.metadata["help"])
    options.add_argument(
        "--seed", type=whole(0), default=0, help="seed of the archive; every system gets its own from it"
    )
    shares = {"type": tuple[float, float, float], "default": (0.8, 0.1, 0.1)}
    options.add_argument("--split", **shares, help="shares of train, validation, test")
    options.add_argument("--workers", type=whole(), default=None, help="local processes; one per core by default")
    options.add_argument("--scheduler", type=str | None, default=None, help="address of a running dask scheduler")
    options.add_argument(
        "--shard-systems", type=whole(0), default=0, help="systems per shard file; 0 for a choice by size"
    )
    add_storage_options(options)
    return options


def _name(field: "dataclasses.Field[object]") -> str:
    return field.metadata["flag"] or field.name
