"""Tables of making and keeping archives: cost of generation, damage to files, runs killed."""

from collections.abc import Callable
from typing import Any

from benchmarks.tables.markdown import table
from nipde.data.cost import Speed, estimate
from nipde.data.darcy import DarcyRecipe
from nipde.data.plan import Plan


def generation(measured: dict[str, Any]) -> str:
    """Cost over bare calls, its parts, two workers against one, memory, and the sets of the paper."""
    cost = [
        (
            f"{row['grid']}²",
            row["systems"],
            f"{row['bare_seconds']:.1f}",
            f"{row['seconds']:.1f}",
            f"{row['ratio']:.2f}",
        )
        for row in measured["cost"]
    ]
    pair = [
        (f"{row['grid']}²", row["systems"], f"{row['one_worker_seconds']:.1f}", f"{row['two_workers_seconds']:.1f}",
         f"{row['speedup']:.2f}", f"{row['speedup_with_start_against_one_process']:.2f}")
        for row in measured["two_workers"]
    ]  # fmt: skip
    sets = [
        (f"{row['systems']} × {row['pairs']} at {row['grid']}²", "shared" if row["shared_loads"] else "own",
         f"{row['seconds']:.0f}", f"{row['mebibytes']:.0f}", f"{row['largest_residual']:.0e}")
        for row in measured["sets"]
    ]  # fmt: skip
    parts, memory = measured["breakdown_21"], measured["memory"]
    peaks = " and ".join(f"{max(row['peak_mib']):.0f} MiB after {row['systems']} systems" for row in memory)
    return "\n".join([
        table(("grid", "systems", "bare NumPy/SciPy, s", "one worker, s", "ratio"), cost),
        f"Per system at 21², ms: bare {parts['bare']:.2f}; building it, with assembly, residual and checks, "
        f"{parts['build']:.2f} ({parts['build_returning_freed_memory']:.2f} if freed memory were handed back as dask "
        f"tells its workers to); checksums, digests and writing {parts['write']:.2f} (zarr's writer, without digests: "
        f"{parts['write_by_zarr_without_digest']:.2f}).\n",
        table(("grid", "systems", "one dask worker, s", "two, s", "speed-up",
                "two with start-up, over one process"), pair),
        f"Peak memory of a worker at 21²: {peaks}.\n",
        table(("data set", "loads", "seconds, all cores", "MiB", "largest residual"), sets),
    ])  # fmt: skip


def integrity(measured: dict[str, Any]) -> str:
    """By kind of damage: how verifying and plain reading took it."""
    rows = []
    for kind in ("flipped_bit", "truncated_file", "deleted_file"):
        row = measured[kind]
        rows.append((
            kind.replace("_", " "), measured["trials_per_kind"], row["verify_raised_naming_file"],
            row["read_raised"], row["read_equal"], row["verify_silent"] + row["read_silent"],
        ))  # fmt: skip
    head = ("damage", "trials", "named by verify", "plain read: error", "plain read: right values", "silent")
    return table(head, rows)


def kills(measured: dict[str, Any]) -> str:
    """What was killed, and whether the archive ended up the same."""
    worker = "yes" if measured["worker_killed"]["same_digest"] else "no"
    rows = [
        ("one of two workers of a running scheduler, SIGKILL", 1, worker, "–"),
        ("the whole run, SIGKILL at random moments, started again", measured["runs_killed"], measured["same_digest"],
         measured["only_missing_recomputed"]),
    ]  # fmt: skip
    return table(("killed", "times", "same digest as undisturbed", "only missing shards recomputed"), rows)


def array_jobs(measured: dict[str, Any]) -> str:
    """Each process of the archive by jobs, beside the one run."""
    jobs, killed = measured["by_jobs"], measured["by_jobs"]["killed"]
    kept = jobs["kept_by_the_killed"]
    rows = [(f"job {job}", row) for job, row in jobs["jobs"].items()]
    rows += [(f"job {job}, killed with {kept[job]} systems ready, again", row) for job, row in jobs["again"].items()]
    rows += [("job 1 again, nothing to do", jobs["a_finished_job_again"]), ("merge", jobs["merge"])]
    rows += [("all in one process", measured["one_run"])]
    lines = [(name, row["computed"], f"{row['seconds']:.0f}", f"{row['processor_seconds']:.0f}") for name, row in rows]
    # The cost model, calibrated on job 1 alone: what a job with nothing to do takes is its start.
    start, share, whole = jobs["a_finished_job_again"], jobs["jobs"]["1"], measured["one_run"]["processor_seconds"]
    per_system = (share["processor_seconds"] - start["processor_seconds"]) / share["computed"]
    plan = Plan(DarcyRecipe(nodes=measured["grid"], pairs=measured["pairs"]), systems=measured["systems"])
    found = estimate(plan, Speed(per_system, shard_seconds=0.0, check_seconds_per_byte=0.0))
    predicted = 3600 * found.core_hours + start["processor_seconds"]
    outcome = "the same digest" if measured["same_digest"] else "ANOTHER DIGEST"
    return "\n".join([
        f"{measured['systems']} systems at {measured['grid']}² with {measured['pairs']} pairs in {measured['shards']} "
        f"shards by {measured['jobs']} jobs at once, jobs {' and '.join(map(str, killed))} killed (SIGKILL): {outcome} "
        "as one run.\n",
        table(("process", "systems computed", "seconds", "processor seconds"), lines),
        f"The cost model, calibrated on job 1 alone, says {predicted:.0f} processor seconds for the one run (measured "
        f"{whole:.0f}, {100 * (predicted / whole - 1):+.0f} %), {found.files} files ({measured['files']}) and "
        f"{found.bytes} bytes ({measured['bytes']}). Seconds are those of a machine that was busy with other work.\n",
    ])  # fmt: skip


def dask_tasks(measured: dict[str, Any]) -> str:
    """Tasks per second, by number of tasks."""
    rows = [
        (row["tasks"], f"{row['seconds']:.1f}", f"{row['per_second']:.0f}",
         f"{row['tasks'] / row['client_and_scheduler_processor_seconds']:.0f}",
         f"{row['client_and_scheduler_peak_mib']:.0f}")
        for row in measured["rows"]
    ]  # fmt: skip
    head = (
        "tasks",
        "seconds",
        "tasks/s",
        "tasks per processor second of scheduler and client",
        "their peak memory, MiB",
    )
    said = f"Two dask workers, tasks that return a record and do nothing else:\n\n{table(head, rows)}"
    for tasks in measured["not_run"]:
        said += f"\n{tasks:,} tasks were not run: by the row before they would have taken more than 15 minutes here.\n"
    return said


def cost_model(measured: dict[str, Any]) -> str:
    """Predictions beside what was measured, then the forecasts and what gives way first."""
    rows = []
    for row in measured["rows"]:
        said, found = row["predicted"], row["measured"]
        rows.append((
            f"{row['systems']} × {row['pairs']} at {row['grid']}²", f"{said['processor_seconds']:.1f}",
            f"{found['processor_seconds']:.1f}", f"{100 * (row['ratio']['processor_seconds'] - 1):+.0f} %",
            f"{100 * (row['ratio']['check_processor_seconds'] - 1):+.0f} %",
            said["bytes"] - found["bytes"], said["files"] - found["files"],
        ))  # fmt: skip
    head = (
        "run",
        "predicted, processor s",
        "measured",
        "difference",
        "of the merge",
        "bytes too many",
        "files too many",
    )
    lines: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
        ("storage, TB", lambda one: f"{one['bytes'] / 1e12:.2f}"),
        ("shards; files", lambda one: f"{one['shards']:,}; {one['files']:,}"),
        ("manifest, MB", lambda one: f"{one['manifest_bytes'] / 1e6:.1f}"),
        ("core hours", lambda one: f"{one['core_hours']:.0f}"),
        ("hours", lambda one: f"{one['hours']:.1f}"),
        ("merge by one thread, hours", lambda one: f"{one['merge_hours']:.1f}"),
        ("failures expected", lambda one: f"{one['failures']:.2g}"),
        ("core hours lost by them", lambda one: f"{one['lost_core_hours']:.2g}"),
        ("storage must take, MB/s", lambda one: f"{one['bandwidth'] / 1e6:.0f}"),
        ("cost at these prices", lambda one: f"{one['cost']:.0f}"),
        ("gives way first, share of its limit", lambda one: "; ".join(
            f"{limit['what']} {100 * limit['value'] / limit['limit']:.0f} %" for limit in one["limits"][:4])),
    )  # fmt: skip
    machines = measured["machines"]
    forecast = [(name, *(show(one) for one in measured["sets"])) for name, show in lines]
    return "\n".join([
        table(head, rows),
        f"Forecast for 32 pairs at 256² on {machines['cores']} cores of this kind. Assumed, not measured: "
        f"{machines['failures']:g} failures per core hour, {machines['restart_hours']:g} hours until a job runs again, "
        f"jobs of at most {machines['job_hours']:g} hours, {machines['price_core_hour']:g} per core hour, "
        f"{machines['price_terabyte_month']:g} per TB and month for {machines['months']:g} months.\n",
        table(("set of", *(f"{one['systems']:,} systems" for one in measured["sets"])), forecast),
    ])  # fmt: skip
