"""A real S3 server on loopback; every request it gets is counted."""

import multiprocessing
import threading
from collections import Counter

import boto3
import numpy as np
import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from nipde.data.archive import open_archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.layout import stored
from nipde.data.plan import Plan
from nipde.errors import ArchiveError, IntegrityError


class Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


class Counting:
    """WSGI middleware: (method, path) of every request."""

    def __init__(self, application):
        self.application, self.requests = application, []

    def __call__(self, environ, start_response):
        self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        return self.application(environ, start_response)


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
    return Plan(DarcyRecipe(nodes=11, pairs=6), systems=640, seed=3, shard_systems=32)


@pytest.fixture(scope="module")
def remote(server, stored_plan):
    generate(stored_plan, "s3://lab/darcy", workers=1, options=server.options)
    return open_archive("s3://lab/darcy", options=server.options)


@pytest.fixture(scope="module")
def local(stored_plan, tmp_path_factory):
    return generate(stored_plan, tmp_path_factory.mktemp("local") / "darcy", workers=1)


def test_the_store_holds_bitwise_the_local_arrays(local, remote):
    assert remote.digest == local.digest
    chosen = np.random.default_rng(0).permutation(640)[:256]
    here, there = local[chosen], remote[chosen]
    for name in ("loads", "responses", "hidden", "seed", "parameters", "diagnostics"):
        np.testing.assert_array_equal(stored(name, here), stored(name, there))


def test_random_reads_touch_only_their_shards(server, remote):
    # 256 systems at random from 10 of the 20 shards
    rng = np.random.default_rng(1)
    shards = rng.permutation(20)[:10]
    chosen = rng.permutation(np.concatenate([np.arange(32) + 32 * shard for shard in shards]))[:256]
    remote[0]  # handles are open
    server.requests.clear()
    remote[chosen]
    asked = Counter(path for method, path in server.requests if method == "GET")
    touched = {int(path.split("/c.")[1].split(".")[0]) for path in asked if "/c." in path}
    assert touched == {int(shard) for shard in shards}
    # per sharded array: one index per shard and one range per system; small arrays: one file per shard
    assert sum(asked.values()) <= 3 * (256 + 10) + 3 * 10
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
        with pytest.raises(IntegrityError, match=r"responses/c\.3\.0\.0\.0\.0 .*system 96"):
            open_archive("s3://lab/darcy", options=server.options)[96]
        client.delete_object(Bucket="lab", Key=key)
        with pytest.raises(IntegrityError, match="is missing"):
            open_archive("s3://lab/darcy", options=server.options)[96]
    finally:
        client.put_object(Bucket="lab", Key=key, Body=content)


@pytest.mark.slow
def test_a_stopped_upload_is_continued(server, local, stored_plan):
    class Stop(Exception):
        pass

    done = []

    def stop_later(ready, computed):
        done.append(computed)
        if len(done) == 15:
            raise Stop

    with pytest.raises(Stop):
        generate(stored_plan, "s3://lab/again", workers=1, options=server.options, progress=stop_later)
    with pytest.raises(ArchiveError, match="an unfinished one"):
        open_archive("s3://lab/again", options=server.options)
    done.clear()
    archive = generate(
        stored_plan, "s3://lab/again", workers=1, options=server.options, progress=lambda _, new: done.append(new)
    )
    assert sum(done) == 5 * 32
    assert archive.digest == local.digest
