"""What a hostile workspace or a hostile crowd can do: nothing that stops the others."""

import os
import signal
import socket
from pathlib import Path

import pytest

from local_kit import Refused, await_that


def folder_of(place, job):
    return Path(place.status(job)["logPath"]).parent


def record_of(place, job):
    return next(path for path in folder_of(place, job).iterdir() if job in path.name and path.suffix == ".json")


def fifo(path):
    os.mkfifo(path)


def link_outside(path):
    path.symlink_to("/etc/passwd")


def loop(path):
    path.symlink_to(path.name)


def folder(path):
    path.mkdir()


def huge(path):
    with path.open("wb") as file:
        file.truncate(20 << 30)


@pytest.mark.parametrize("make", [fifo, link_outside, loop, folder])
def test_a_log_that_was_replaced_is_a_clear_error_and_shows_nothing_else(local, make):
    job = local.job("echo hi")
    local.finish(job)
    log = folder_of(local, job) / f"{job}.log"
    log.unlink()
    make(log)
    with pytest.raises(Refused) as refused:
        local.call("exec_job_output", id=job, timeout=5)
    assert refused.value.code != "INTERNAL" and "root:" not in str(refused.value)
    assert local.sh("echo ok")["stdout"] == "ok\n"


@pytest.mark.parametrize("make", [fifo, link_outside, loop, folder, huge])
def test_a_record_that_was_replaced_blocks_no_list_and_fills_no_memory(local, make):
    good, bad = local.job("exit 3"), local.job("exit 4")
    local.finish(good), local.finish(bad)
    record = record_of(local, bad)
    record.unlink()
    make(record)
    jobs = {job["id"]: job for job in local.call("exec_job_status", timeout=5)["jobs"]}
    assert jobs[good]["exitCode"] == 3 and jobs.get(bad, {}).get("exitCode") in (None, 4)
    try:
        assert local.call("exec_job_status", id=bad, timeout=5)["job"]["exitCode"] in (None, 4)
    except Refused as refused:
        assert refused.code != "INTERNAL"
    for pid in local.processes("cuddy-host"):
        peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
        assert int(peak.split()[1]) < 100_000, peak


def test_without_a_folder_for_records_a_job_is_refused_and_a_call_still_works(fresh):
    cache = fresh.workspace / ".cache"
    cache.rename(fresh.workspace / "elsewhere")
    cache.write_text("in the way")
    with pytest.raises(Refused) as refused:
        fresh.job("true")
    assert refused.value.code != "INTERNAL"
    assert fresh.sh("echo ok")["stdout"] == "ok\n"
    cache.unlink()
    assert fresh.finish(fresh.job("exit 3"))["exitCode"] == 3


def test_five_hundred_half_open_connections_hold_nobody_up(local):
    streams = []
    try:
        for _ in range(500):
            stream = socket.create_connection(("127.0.0.1", local.port), timeout=5)
            stream.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            streams.append(stream)
        assert local.rpc("ping", timeout=5).status == 200
        assert local.sh("echo ok")["stdout"] == "ok\n"
    finally:
        for stream in streams:
            stream.close()


@pytest.mark.parametrize(("tool", "arguments"), [
    ("exec_raw", {"argv": ["true"], "timeout_seconds": 1}), ("exec_job_await", {"id": "x", "timeoutSeconds": 1}), ("exec_job_status", {})])
def test_a_host_that_hangs_hangs_no_call_beyond_its_own_limit(fresh, tool, arguments):
    """A call that named a limit of one second is answered soon after it, whatever became of the host."""
    [host] = [pid for pid, command in fresh.processes("cuddy-host").items() if " host " in command]
    os.kill(host, signal.SIGSTOP)
    try:
        assert fresh.call("version", timeout=5)["build"] and fresh.rpc("ping", timeout=5).status == 200
        with pytest.raises(Refused) as refused:
            fresh.call(tool, **arguments, timeout=15)
        assert refused.value.code != "INTERNAL" and refused.value.text
    finally:
        os.kill(host, signal.SIGCONT)
    await_that("calls work again", lambda: works(fresh), seconds=10)


def works(place):
    try:
        return place.sh("echo ok")["stdout"] == "ok\n"
    except (Refused, AssertionError, OSError):
        return False
