"""A real S3 server on loopback; every request it gets is counted."""

import multiprocessing
import random
import threading
import time
from collections import Counter
from contextlib import contextmanager

import boto3
import numpy as np
import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from nipde.data import storage
from nipde.data.archive import BY_SYSTEM, open_archive
from nipde.data.array_jobs import generate_share, merge_shares
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.layout import stored
from nipde.data.plan import Plan
from nipde.errors import ArchiveError, IntegrityError


class Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


class Counting:
    """WSGI middleware: (method, path) of every request; faults in answers to some of them, where a test wants any."""

    def __init__(self, application):
        self.application, self.requests = application, []
        self.fault, self.share, self.faults = None, 0.0, 0
        self.rng, self.released = random.Random(3), threading.Event()

    def __call__(self, environ, start_response):
        method = environ["REQUEST_METHOD"]
        self.requests.append((method, environ["PATH_INFO"]))
        wanted = self.fault and method in self.methods and self.rng.random() < self.share
        self.faults += bool(wanted)
        return (self.fault if wanted else _as_it_is)(self, environ, start_response)

    @contextmanager
    def failing(self, fault, *, share=1.0, methods=("GET",)):
        """Within the block a share of the answers is faulty."""
        self.fault, self.share, self.methods, self.faults = fault, share, methods, 0
        self.requests.clear()
        self.released.clear()
        try:
            yield
        finally:
            self.fault = None
            self.released.set()


def _as_it_is(server, environ, start_response):
    return server.application(environ, start_response)


def _answer(server, environ):
    """Status, headers and body that the real server gives."""
    kept = []
    body = b"".join(server.application(environ, lambda status, headers, *_: kept.extend([status, headers])))
    return kept[0], kept[1], body


def error_500(server, environ, start_response):
    start_response("500 Internal Server Error", [("Content-Length", "0")])
    return []


def error_503(server, environ, start_response):
    text = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
    start_response("503 Slow Down", [("Content-Length", str(len(text)))])
    return [text]


def cut_body(server, environ, start_response):
    status, headers, body = _answer(server, environ)
    start_response(status, [*(h for h in headers if h[0] != "Content-Length"), ("Content-Length", str(len(body)))])
    return [body[: len(body) // 2]]


def wrong_length(server, environ, start_response):
    status, headers, body = _answer(server, environ)
    half = body[: len(body) // 2]
    start_response(status, [*(h for h in headers if h[0] != "Content-Length"), ("Content-Length", str(len(half)))])
    return [half]


def flipped_bit(server, environ, start_response):
    status, headers, body = _answer(server, environ)
    damaged = bytearray(body)
    if damaged:
        damaged[server.rng.randrange(len(damaged))] ^= 1
    start_response(status, headers)
    return [bytes(damaged)]


def other_object(server, environ, start_response):
    return _as_it_is(server, {**environ, "PATH_INFO": environ["PATH_INFO"].replace("c.", "c.1", 1)}, start_response)


def slow_answer(server, environ, start_response):
    time.sleep(0.3)
    return _as_it_is(server, environ, start_response)


def no_answer(server, environ, start_response):
    server.released.wait(60)
    return error_500(server, environ, start_response)


@pytest.fixture(scope="module")
def server():
    counting = Counting(DomainDispatcherApplication(create_backend_app))
    served = make_server("127.0.0.1", 0, counting, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{served.server_port}"
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    boto3.client("s3", endpoint_url=address, **keys).create_bucket(Bucket="lab")
    counting.options = {"endpoint_url": address, "key": "test", "secret": "test"}
    yield counting
    served.shutdown()
    thread.join()


@pytest.fixture(scope="module")
def stored_plan():
    return Plan(DarcyRecipe(nodes=11, pairs=6), systems=80, seed=3, shard_systems=8)


@pytest.fixture(scope="module")
def remote(server, stored_plan):
    generate(stored_plan, "s3://lab/darcy", workers=1, options=server.options)
    return open_archive("s3://lab/darcy", options=server.options)


@pytest.fixture(scope="module")
def local(stored_plan, tmp_path_factory):
    return generate(stored_plan, tmp_path_factory.mktemp("local") / "darcy", workers=1)


def test_the_store_holds_bitwise_the_local_arrays(local, remote):
    assert remote.digest == local.digest
    chosen = np.random.default_rng(0).permutation(80)[:40]
    here, there = local[chosen], remote[chosen]
    for name in ("loads", "responses", "hidden", "seed", "parameters", "diagnostics"):
        np.testing.assert_array_equal(stored(name, here), stored(name, there))


def test_random_reads_touch_only_their_shards(server, remote):
    # 30 systems at random from 5 of the 10 shards
    rng = np.random.default_rng(1)
    shards = rng.permutation(10)[:5]
    chosen = rng.permutation(np.concatenate([np.arange(8) + 8 * shard for shard in shards]))[:30]
    remote[0]  # handles are open
    server.requests.clear()
    remote[chosen]
    asked = Counter(path for method, path in server.requests if method == "GET")
    touched = {int(path.split("/c.")[1].split(".")[0]) for path in asked if "/c." in path}
    assert touched == {int(shard) for shard in shards}
    # per sharded array: one index per shard and one range per system; small arrays: one file per shard
    assert sum(asked.values()) <= 3 * (30 + 5) + 3 * 5
    assert all(method in ("GET", "HEAD") for method, _ in server.requests)


def test_opening_costs_a_handful_of_requests(server, remote):
    server.requests.clear()
    open_archive("s3://lab/darcy", options=server.options)
    assert len(server.requests) <= 15


def read_in_child(archive):
    return archive[17].responses


def test_training_processes_may_fork_with_an_open_archive(local, remote):
    expected = remote[17].responses  # the parent's connections are open now
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for found in pool.map_async(read_in_child, [remote, remote]).get(timeout=60):
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(local[17].responses, expected)


def test_damage_in_the_store_is_named(server, remote, stored_plan):
    client = boto3.client(
        "s3", endpoint_url=server.options["endpoint_url"], aws_access_key_id="test", aws_secret_access_key="test",
        region_name="us-east-1",
    )  # fmt: skip
    key = "darcy/responses/c.3.0.0.0.0"
    content = client.get_object(Bucket="lab", Key=key)["Body"].read()
    try:
        client.put_object(Bucket="lab", Key=key, Body=content[:100] + b"?" + content[101:])
        with pytest.raises(IntegrityError, match=r"responses/c\.3\.0\.0\.0\.0 .*system 24"):
            open_archive("s3://lab/darcy", options=server.options)[24]
        client.delete_object(Bucket="lab", Key=key)
        with pytest.raises(IntegrityError, match="is missing"):
            open_archive("s3://lab/darcy", options=server.options)[24]
    finally:
        client.put_object(Bucket="lab", Key=key, Body=content)


@pytest.mark.slow
def test_a_stopped_upload_is_continued(server, local, stored_plan):
    class Stop(Exception):
        pass

    done = []

    def stop_later(ready, computed):
        done.append(computed)
        if len(done) == 7:
            raise Stop

    with pytest.raises(Stop):
        generate(stored_plan, "s3://lab/again", workers=1, options=server.options, progress=stop_later)
    with pytest.raises(ArchiveError, match="an unfinished one"):
        open_archive("s3://lab/again", options=server.options)
    done.clear()
    archive = generate(
        stored_plan, "s3://lab/again", workers=1, options=server.options, progress=lambda _, new: done.append(new)
    )
    assert sum(done) == 3 * 8
    assert archive.digest == local.digest


def test_jobs_of_an_array_fill_a_store(server, local, stored_plan):
    place, jobs = "s3://lab/jobs", 3
    for job in (2, 3):
        generate_share(stored_plan, place, job=job, jobs=jobs, workers=1, options=server.options)
    with pytest.raises(ArchiveError, match=r"run again --shard 1/3$"):
        merge_shares(stored_plan, place, jobs=jobs, options=server.options)
    server.requests.clear()
    generate_share(stored_plan, place, job=2, jobs=jobs, workers=1, options=server.options)
    assert {method for method, _ in server.requests} <= {"GET", "HEAD"}  # intact: nothing is written
    generate_share(stored_plan, place, job=1, jobs=jobs, workers=1, options=server.options)
    assert merge_shares(stored_plan, place, jobs=jobs, options=server.options).digest == local.digest


QUICK = [cut_body, wrong_length, flipped_bit, other_object]
#: Between two attempts the library waits for seconds.
LONG = [pytest.mark.slow, pytest.mark.timeout(3600)]
FAULTS = [(fault, 2) for fault in QUICK]
FAULTS += [pytest.param(fault, 30, marks=LONG) for fault in (*QUICK, error_500, error_503, slow_answer)]


@pytest.mark.parametrize(("fault", "rounds"), FAULTS)
def test_no_wrong_byte_comes_out_of_a_faulty_store(fault, rounds, server, remote, local):
    outcomes = Counter()
    with server.failing(fault, share=0.3):
        for index in range(rounds):
            try:
                read = open_archive("s3://lab/darcy", options=server.options)[8 * (index % 10)]
            except ArchiveError:
                outcomes["refused"] += 1
                continue
            outcomes["right"] += 1
            kept = local[8 * (index % 10)]
            assert all(np.array_equal(stored(name, read), stored(name, kept)) for name in BY_SYSTEM)
    assert server.faults
    assert fault is not slow_answer or outcomes == {"right": rounds}


@pytest.mark.parametrize("fault", [error_500, cut_body, no_answer], ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("work", ["open", "read", "verify", "generate"])
def test_a_store_that_always_fails_ends_in_a_typed_error_soon(work, fault, server, remote, stored_plan, monkeypatch):
    monkeypatch.setattr(storage, "PATIENCE", 1.0)
    works = {
        "open": lambda: open_archive("s3://lab/darcy", options=server.options),
        "read": lambda: remote[[40, 41]],
        "verify": remote.verify,
        "generate": lambda: generate(stored_plan, "s3://lab/darcy", workers=1, options=server.options),
    }
    remote[0]  # handles are open
    begun = time.monotonic()
    methods = ("GET",) if fault is cut_body else ("GET", "HEAD")
    with server.failing(fault, methods=methods), pytest.raises(ArchiveError) as error:
        works[work]()
    assert not isinstance(error.value, IntegrityError)  # nothing is said of bytes that were not seen
    assert time.monotonic() - begun < 20
    assert max(Counter(server.requests).values()) <= 30
    remote[40]  # and goes on where the store does


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", [error_500, error_503], ids=lambda fault: fault.__name__)
def test_an_upload_that_fails_ends_in_a_typed_error_and_is_continued(fault, server, local, stored_plan):
    place = f"s3://lab/{fault.__name__}"
    with server.failing(fault, methods=("PUT", "POST")), pytest.raises(ArchiveError):
        generate(stored_plan, place, workers=1, options=server.options)
    assert max(Counter(server.requests).values()) <= 150
    assert generate(stored_plan, place, workers=1, options=server.options).digest == local.digest
