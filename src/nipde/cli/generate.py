"""`nipde generate PROBLEM`: simulate systems with random coefficients and store them; the same command resumes."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

from jsonargparse import ArgumentParser, Namespace
from rich.filesize import decimal

from nipde.cli.arguments import ConfigFile, add_storage_options, array_job, new_address, parser, whole
from nipde.cli.terminal import progress, say
from nipde.data.array_jobs import generate_share, merge_shares, share_of
from nipde.data.cost import calibrate, estimate
from nipde.data.generation import Progress, generate
from nipde.data.plan import Plan
from nipde.data.problems import described, problem, problem_names
from nipde.data.recipe import Recipe
from nipde.errors import UsageError, meant


def run(words: list[str]) -> int:
    """Entry of the verb."""
    if not words or words[0] in ("-h", "--help"):
        say("\n".join([
            "usage: nipde generate PROBLEM [options]", "", "problems:",
            *(f"  {name:17}{text}" for name, text in described()), "",
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
    ways = [name for name in ("shard", "merge", "scheduler", "dry_run") if options[name]]
    if len(ways) > 1:
        got = " and ".join("--" + way.replace("_", "-") for way in ways)
        raise UsageError(expected="one of --shard, --merge, --scheduler, --dry-run", got=got,
                         remedy="give one at a time")  # fmt: skip
    say(_forecast(plan) if options.dry_run else _share(plan, options) if options.shard else _all(plan, options))
    return 0


def _forecast(plan: Plan) -> str:
    """What the archive will take, by a few systems made in a folder that is removed again."""
    plan.recipe.ready()
    speed = calibrate(plan)
    found = estimate(plan, speed)
    near = found.limits[0]
    return "\n".join([
        f"{plan.systems} systems: {decimal(found.bytes)} in {found.files} files, {plan.shards} shards of "
        f"{plan.systems_per_shard} systems",
        f"{speed.system_seconds:.2g} s per system: {found.core_hours:.2g} core hours on cores like this one, "
        f"then {found.merge_hours:.2g} hours to check every byte by one thread",
        f"nearest limit: {near.what}, {near.value:.3g} of {near.limit:.3g}",
    ])  # fmt: skip


def _all(plan: Plan, options: Namespace) -> str:
    """The whole archive: made, finished, or merged from the shares of jobs."""
    where = {"workers": options.workers, "options": options.storage_options}
    with _counted(plan.systems) as (report, computed):
        if options.merge:
            archive = merge_shares(plan, options.out, jobs=options.merge, progress=report, **where)
        else:
            archive = generate(plan, options.out, scheduler=options.scheduler, progress=report, **where)
    return f"{len(archive)} systems at {options.out} ({sum(computed)} computed now), digest {archive.digest[:16]}"


def _share(plan: Plan, options: Namespace) -> str:
    """What one job of an array makes."""
    job, jobs = map(int, options.shard.split("/"))
    share = share_of(plan, job=job, jobs=jobs)
    systems = sum(len(plan.systems_of(shard)) for shard in share)
    with _counted(systems) as (report, computed):
        generate_share(plan, options.out, job=job, jobs=jobs, workers=options.workers,
                       options=options.storage_options, progress=report)  # fmt: skip
    ready = f"job {job} of {jobs}: {len(share)} of {plan.shards} shards, {systems} systems ready"
    return f"{ready} ({sum(computed)} computed now); after the last job: --merge {jobs}"


@contextmanager
def _counted(systems: int) -> Iterator[tuple[Progress, list[int]]]:
    """A bar over so many systems, and the numbers of those computed now."""
    computed: list[int] = []
    with progress("systems", systems) as advance:

        def report(ready: int, new: int) -> None:
            computed.append(new)
            advance(ready)

        yield report, computed


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
        "--shard", type=array_job, default=None, metavar="I/N",
        help="make only the share of job I of N, counted from 1; jobs need no scheduler, no order and no connection",
    )  # fmt: skip
    options.add_argument(
        "--merge", type=whole(), default=None, metavar="N",
        help="after N such jobs: check every byte, write the manifest, or name the jobs to run again",
    )  # fmt: skip
    options.add_argument(
        "--dry-run", action="store_true", help="make a few systems on trial, say what all would take, write nothing"
    )
    options.add_argument(
        "--shard-systems", type=whole(0), default=0, help="systems per shard file; 0 for a choice by size"
    )
    add_storage_options(options)
    return options


def _name(field: "dataclasses.Field[object]") -> str:
    return field.metadata["flag"] or field.name
