"""Jobs: the whole life of one, its output in pages, its end, and what survives the death of host and sidecar."""

import base64
import json
import os
import signal
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from local_kit import Refused, alive, await_that

CAP = 4 << 20


def page_all(place, job, size):
    """Reads a job's output to its end in pages; returns the text and the number of pages."""
    text, offset, pages = "", 0, 0
    while True:
        page = place.call("exec_job_output", id=job, offset=offset, maxBytes=size)
        assert page["offset"] == offset
        text += page["output"]
        assert page["nextOffset"] >= offset and page["nextOffset"] - offset <= size
        if not page["hasMore"]:
            assert page["complete"] is True
            return text, pages
        assert page["nextOffset"] > offset, "no way on"
        offset, pages = page["nextOffset"], pages + 1


# The life.

def test_a_job_from_start_to_end(local):
    began = time.monotonic()
    job = local.job("echo first; sleep 1; echo last >&2; exit 42", name="suite")
    assert job == "suite" and time.monotonic() - began < 1
    running = local.status(job)
    assert running["state"] == "running" and running["exitCode"] is None and running["name"] == "suite"
    assert running["command"] == ["sh", "-c", "echo first; sleep 1; echo last >&2; exit 42"]
    assert alive(running["pid"]) and alive(running["childPid"]) and running["pid"] != running["childPid"]
    assert running["outputLimitBytes"] == CAP and running["dir"] == str(local.workspace)
    assert running["leaseId"] == "job-suite"
    await_that("the first line", lambda: local.call("exec_job_output", id=job)["output"] == "first\n")
    assert local.call("exec_job_output", id=job)["complete"] is False
    early = local.call("exec_job_await", id=job, timeoutSeconds=1)
    assert early["timeoutSeconds"] == 1
    done = local.call("exec_job_await", id=job, timeoutSeconds=20)
    assert done["timedOut"] is False and done["job"]["state"] == "exited" and done["job"]["exitCode"] == 42
    assert done["job"]["endedAt"] > done["job"]["startedAt"]
    out = local.call("exec_job_output", id=job)
    assert out["output"] == "first\nlast\n" and out["complete"] is True and out["hasMore"] is False
    assert out["job"]["outputBytes"] == len("first\nlast\n")


def test_a_running_job_holds_a_lease_and_gives_it_back(local):
    job = local.job("sleep 30")
    held = [lease["id"] for lease in local.call("activity_lease_list")["leases"]]
    assert f"job-{job}" in held
    idle = local.call("idle")
    assert idle["eligible_for_stop"] is False and idle["activity"]["running_jobs"] >= 1
    local.call("exec_job_cancel", id=job, signal="KILL")
    local.finish(job)
    await_that("the lease is back", lambda: f"job-{job}" not in [x["id"] for x in local.call("activity_lease_list")["leases"]])


def test_a_job_beats_even_when_it_is_silent(local):
    job = local.job("sleep 30")
    first = await_that("a beat", lambda: local.status(job).get("aliveSeq"), seconds=5)
    await_that("the next beat", lambda: local.status(job)["aliveSeq"] > first, seconds=5)
    assert local.status(job)["aliveAgeMs"] < 5000
    local.call("exec_job_cancel", id=job, signal="KILL")


def test_await_of_a_running_job_says_timed_out_and_nothing_else(local):
    job = local.job("sleep 30")
    began = time.monotonic()
    out = local.call("exec_job_await", id=job, timeoutSeconds=1)
    assert out["timedOut"] is True and out["job"]["state"] == "running" and out["job"]["exitCode"] is None
    assert 0.9 <= time.monotonic() - began < 4
    local.call("exec_job_cancel", id=job, signal="KILL")


def test_await_bounds(local):
    job = local.job("true")
    local.finish(job)
    assert local.call("exec_job_await", id=job, timeoutSeconds=0)["timeoutSeconds"] == 30
    assert local.call("exec_job_await", id=job)["timeoutSeconds"] == 30
    assert local.call("exec_job_await", id=job, timeoutSeconds=600)["timeoutSeconds"] == 600
    for wrong in (601, -1, 7200, 10**30, "30", 1.5, True):
        with pytest.raises(Refused) as refused:
            local.call("exec_job_await", id=job, timeoutSeconds=wrong)
        assert refused.value.path == "$.timeoutSeconds"


def test_many_wait_for_one_job_and_all_hear_of_its_end(local):
    job = local.job("sleep 1; exit 3")
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda _: local.finish(job)["exitCode"], range(8)))
    assert codes == [3] * 8


def test_a_death_by_signal_is_no_exit_code(local):
    job = local.job("kill -9 $$")
    ended = local.finish(job)
    assert ended["state"] == "exited" and ended["exitCode"] != 0 and "KILL" in json.dumps(ended)


def test_a_program_that_does_not_exist_is_told_at_once_or_in_the_record(local):
    name = f"missing-{uuid.uuid4().hex[:6]}"
    try:
        local.call("exec_raw", argv=["no-such-program"], wait=False, name=name)
    except Refused as refused:
        assert "no-such-program" in refused.text
        return
    ended = local.finish(name)
    assert ended["exitCode"] != 0 and ended["state"] in ("exited", "unknown")


def test_the_list_is_newest_first(local):
    jobs = [local.job("true") for _ in range(3)]
    for job in jobs:
        local.finish(job)
    listed = [job["id"] for job in local.call("exec_job_status")["jobs"]]
    assert [j for j in listed if j in jobs] == jobs[::-1]


def test_no_such_job_is_a_clear_error_in_every_tool(local):
    for tool in ("exec_job_status", "exec_job_await", "exec_job_output", "exec_job_cancel"):
        with pytest.raises(Refused) as refused:
            local.call(tool, id="no-such-job")
        assert "no-such-job" in refused.value.text and refused.value.code == "NOT_FOUND", refused.value


BAD_IDS = ["../x", "..", ".", "", ".hidden", "a/b", "/etc/passwd", "a\0b", "x" * 101, "a b", "a\nb", "-rf", "ü", "%2e%2e", "a\\b",
           "*", "con:", "\u202e"]


@pytest.mark.parametrize("id", BAD_IDS)
def test_an_id_that_is_no_plain_name_starts_nothing(local, id):
    mark = f"by-id-{uuid.uuid4().hex}"
    try:
        started = local.call("exec_raw", argv=["touch", mark], wait=False, id=id)
    except Refused as refused:
        # Several odd ones may stand for the same handle, which then runs already.
        assert refused.path == "$.id" or refused.code == "CONFLICT", refused
        assert not (local.workspace / mark).exists()
        return
    # Taken after all: then it must be a plain handle.
    assert started["jobId"].replace("-", "").replace("_", "").replace(".", "").isalnum() and started["jobId"][0] != "."


@pytest.mark.parametrize("id", BAD_IDS)
def test_an_id_that_is_no_plain_name_finds_nothing(local, id):
    for tool in ("exec_job_await", "exec_job_output", "exec_job_cancel"):
        with pytest.raises(Refused) as refused:
            local.call(tool, id=f"{id}\u2603" if 0 < len(id) < 100 else id)
        assert refused.value.path == "$.id" or refused.value.code == "NOT_FOUND", refused.value


def test_a_handle_is_no_pattern_and_finds_no_look_alike(local):
    job = local.job("sleep 30", name="look-alike")
    for other in ("Look-alike", "look-alik", "look-alike2", "look*", "look_alike"):
        with pytest.raises(Refused):
            local.call("exec_job_cancel", id=other)
    assert local.status(job)["state"] == "running"
    local.call("exec_job_cancel", id=job, signal="KILL")


@pytest.mark.parametrize("id", ["a", "x" * 100, "A.b_c-9", "0"])
def test_a_plain_id_is_taken_as_it_is(local, id):
    assert local.call("exec_raw", argv=["true"], wait=False, id=id)["jobId"] == id
    assert local.status(id)["id"] == id


@pytest.mark.parametrize("name", ["ü ☃", " ", "...", "", "x" * 101])
def test_a_name_that_no_id_can_be_made_from_is_refused_by_its_place(local, name):
    with pytest.raises(Refused) as refused:
        local.call("exec_raw", argv=["true"], wait=False, name=name)
    assert refused.value.path == "$.name"


@pytest.mark.parametrize("name", ["../../xx", "aa/bb", ".xy", "y" * 100, "run tests!", "ü1"])
def test_an_id_made_from_any_name_is_a_plain_one(local, name):
    job = local.call("exec_raw", argv=["true"], wait=False, name=name)["jobId"]
    assert job and job[0] != "." and "/" not in job and len(job) <= 100
    assert local.status(job)["name"] == name


def test_the_id_of_a_running_job_is_not_taken_twice(local):
    job = local.job("sleep 30")
    with pytest.raises(Refused) as refused:
        local.call("exec_raw", argv=["touch", "by-the-second"], wait=False, id=job)
    assert job in refused.value.text and not (local.workspace / "by-the-second").exists()
    local.call("exec_job_cancel", id=job, signal="KILL")


def test_ten_starts_of_one_id_at_once_start_one_job(local):
    mark = f"one-{uuid.uuid4().hex[:8]}"

    def start(_):
        try:
            return local.call("exec_raw", argv=["sh", "-c", f"echo x >> {mark}; sleep 3"], wait=False, id=mark)
        except Refused as refused:
            return refused

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(start, range(10)))
    assert sum(isinstance(answer, dict) for answer in answers) == 1, answers
    assert local.finish(mark)["exitCode"] == 0
    assert (local.workspace / mark).read_text() == "x\n"


def test_environment_and_input_reach_a_job(local):
    name = f"env-{uuid.uuid4().hex[:6]}"
    local.call("exec_raw", argv=["sh", "-c", "cat; echo $A $ERUN_JOB_ID"], wait=False, name=name, env={"A": "b"}, stdin="in\n")
    local.finish(name)
    assert local.call("exec_job_output", id=name)["output"] == f"in\nb {name}\n"


@pytest.mark.parametrize("cwd", ["/", "..", "/tmp", "no-such"])
def test_a_job_outside_is_refused_before_it_is_one(local, cwd):
    name = f"out-{uuid.uuid4().hex[:6]}"
    with pytest.raises(Refused):
        local.call("exec_raw", argv=["true"], wait=False, cwd=cwd, name=name)
    with pytest.raises(Refused):
        local.status(name)


# Output.

def test_pages_of_multi_byte_text_lose_and_break_nothing(local):
    text = "".join(f"{n} ü☃😀\n" for n in range(400))
    name = f"pages-{uuid.uuid4().hex[:6]}"
    (local.workspace / "pages").write_text(text)
    local.call("exec_raw", argv=["cat", "pages"], wait=False, name=name)
    local.finish(name)
    for size in (211, 1000, 65536):
        got, _ = page_all(local, name, size)
        assert got == text, size


def test_a_page_smaller_than_a_character_still_gets_on(local):
    name = f"tiny-{uuid.uuid4().hex[:6]}"
    local.call("exec_raw", argv=["printf", "%s", "a😀b☃"], wait=False, name=name)
    local.finish(name)
    offset, data = 0, b""
    for _ in range(30):
        page = local.call("exec_job_output", id=name, offset=offset, maxBytes=1)
        data += base64.b64decode(page["outputBase64"]) if page.get("outputBase64") else page["output"].encode()
        if not page["hasMore"]:
            break
        assert page["nextOffset"] > offset
        offset = page["nextOffset"]
    assert data == "a😀b☃".encode()


def test_output_that_is_not_utf8_comes_whole_in_base64(local):
    job = local.job(r"printf 'a\377\376\000b'")
    local.finish(job)
    page = local.call("exec_job_output", id=job)
    assert base64.b64decode(page["outputBase64"]) == b"a\xff\xfe\0b"


def test_the_offset_at_the_end_is_empty_and_one_beyond_it_says_where_the_end_is(local):
    job = local.job("echo hi")
    local.finish(job)
    page = local.call("exec_job_output", id=job, offset=3)
    assert page["output"] == "" and page["hasMore"] is False and page["complete"] is True
    for beyond in (4, 10**12, 2**63, 2**64):
        with pytest.raises(Refused) as refused:
            local.call("exec_job_output", id=job, offset=beyond)
        assert refused.value.path == "$.offset"


def test_output_is_capped_at_4_mib_and_the_job_goes_on_to_its_end(local):
    job = local.job(f"head -c {CAP + 5_000_000} /dev/zero | tr '\\0' x; exit 9")
    ended = local.finish(job, 60)
    assert ended["exitCode"] == 9 and ended["outputTruncated"] is True
    assert ended["outputLimitBytes"] == CAP
    assert os.stat(ended["logPath"]).st_size <= CAP + 4096
    text, pages = page_all(local, job, 1 << 20)
    assert CAP - 4096 <= len(text) <= CAP + 4096 and pages >= 3


def test_output_at_the_cap_exactly_is_not_truncated(local):
    job = local.job(f"head -c {CAP} /dev/zero | tr '\\0' x")
    ended = local.finish(job, 60)
    assert ended["outputBytes"] == CAP and not ended.get("outputTruncated")


def test_output_of_the_background_child_does_not_keep_the_job_running(local):
    job = local.job("sleep 60 & echo up; exit 5")
    ended = local.finish(job, 10)
    assert ended["state"] == "exited" and ended["exitCode"] == 5


# Cancel.

TREE = "setsid sh -c 'sleep 71' & (sleep 72 &) & sh -c 'sleep 73; true' & setsid setsid sh -c 'trap \"\" TERM; sleep 74; sleep 74' & sleep 75"


def test_cancel_ends_the_whole_tree(local):
    job = local.job(TREE)
    for seconds in range(71, 76):
        await_that(f"sleep {seconds} runs", lambda s=seconds: local.processes(f"sleep {s}"))
    out = local.call("exec_job_cancel", id=job)["cancel"]
    assert out["signalled"] is True and out["signal"] in ("TERM", "SIGTERM") and out["targetPid"]
    ended = local.finish(job)
    assert ended["state"] == "exited" and ended["exitCode"] != 0
    for seconds in range(71, 76):
        await_that(f"sleep {seconds} is dead", lambda s=seconds: not local.processes(f"sleep {s}"))


def test_a_job_that_ignores_term_is_killed_after_five_seconds(local):
    job = local.job("trap '' TERM; while :; do sleep 0.2; done")
    began = time.monotonic()
    local.call("exec_job_cancel", id=job)
    ended = local.finish(job, 20)
    assert ended["state"] == "exited" and 4 < time.monotonic() - began < 12


def test_a_job_that_answers_term_keeps_its_own_exit_code(local):
    job = local.job("trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done")
    await_that("it is up", lambda: local.call("exec_job_output", id=job)["output"])
    local.call("exec_job_cancel", id=job)
    assert local.finish(job)["exitCode"] == 5 and local.call("exec_job_output", id=job)["output"].endswith("bye\n")


@pytest.mark.parametrize("name", ["INT", "HUP", "SIGKILL", "kill"])
def test_the_signals_of_cancel(local, name):
    job = local.job("exec sleep 60")
    assert local.call("exec_job_cancel", id=job, signal=name)["cancel"]["signalled"] is True
    assert local.finish(job)["state"] == "exited"


def test_cancel_of_a_finished_job_signals_nobody(local):
    job = local.job("true")
    local.finish(job)
    out = local.call("exec_job_cancel", id=job)["cancel"]
    assert out["signalled"] is False and out["job"]["exitCode"] == 0


def test_ten_cancels_at_once_are_one_end(local):
    job = local.job("sleep 60")
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: local.call("exec_job_cancel", id=job, signal="KILL"), range(10)))
    assert local.finish(job)["state"] == "exited"


def test_a_dozen_jobs_at_once_each_with_its_own_outcome(local):
    def one(n):
        job = local.job(f"echo {n}; exit {n}")
        return n, local.finish(job)["exitCode"], local.call("exec_job_output", id=job)["output"]

    with ThreadPoolExecutor(6) as pool:
        for n, code, text in pool.map(one, range(12)):
            assert (code, text) == (n, f"{n}\n")


# What survives.

def host_and_sidecar(place):
    host = [pid for pid, command in place.processes("cuddy-host").items() if " host " in command]
    sidecar = list(place.processes("cuddy-sidecar serve"))
    assert len(host) == 1 and len(sidecar) == 1, place.processes("cuddy")
    return host[0], sidecar[0]


def answers(place):
    try:
        return place.call("version", timeout=2) and place.sh("echo ok", timeout_seconds=5)["exit_code"] == 0
    except (Refused, AssertionError, OSError):
        return False


@pytest.mark.parametrize("victims", ["host", "sidecar", "both"])
def test_a_job_outlives_the_death_of_its_keepers(fresh, victims):
    job = fresh.job("i=0; while [ $i -lt 25 ]; do echo $i; i=$((i+1)); sleep 0.1; done; exit 6")
    await_that("it runs", lambda: fresh.call("exec_job_output", id=job)["output"])
    work = fresh.status(job)["childPid"]
    host, sidecar = host_and_sidecar(fresh)
    for pid in {"host": [host], "sidecar": [sidecar], "both": [host, sidecar]}[victims]:
        os.kill(pid, signal.SIGKILL)
    assert alive(work)
    await_that("the endpoint answers again", lambda: answers(fresh), seconds=10)
    ended = fresh.finish(job, 30)
    assert ended["state"] == "exited" and ended["exitCode"] == 6, ended
    assert fresh.call("exec_job_output", id=job)["output"] == "".join(f"{n}\n" for n in range(25))


def test_a_job_can_be_cancelled_after_the_host_died(fresh):
    job = fresh.job(TREE)
    await_that("the tree is up", lambda: fresh.processes("sleep 75") and fresh.processes("sleep 74"))
    os.kill(host_and_sidecar(fresh)[0], signal.SIGKILL)
    await_that("calls work again", lambda: answers(fresh), seconds=20)
    assert fresh.status(job)["state"] == "running"
    fresh.call("exec_job_cancel", id=job)
    assert fresh.finish(job)["state"] == "exited"
    for seconds in range(71, 76):
        await_that(f"sleep {seconds} is dead", lambda s=seconds: not fresh.processes(f"sleep {s}"))


def test_a_job_whose_supervisor_is_killed_is_unknown_and_never_a_success(fresh):
    job = fresh.job("sleep 81")
    record = fresh.status(job)
    os.kill(record["pid"], signal.SIGKILL)
    ended = await_that("it is terminal", lambda: (r := fresh.status(job))["state"] != "running" and r, seconds=15)
    assert ended["state"] == "unknown" and ended["exitCode"] is None and ended["reason"], ended
    out = fresh.call("exec_job_await", id=job, timeoutSeconds=5)
    assert out["timedOut"] is False and out["job"]["state"] == "unknown"
    await_that("the lease is back", lambda: not [x for x in fresh.call("activity_lease_list")["leases"] if x["id"] == f"job-{job}"])
    await_that("its work is gone or can be cancelled", lambda: cancel_or_gone(fresh, job), seconds=10)


def cancel_or_gone(place, job):
    if place.processes("sleep 81"):
        place.call("exec_job_cancel", id=job, signal="KILL")
    return not place.processes("sleep 81")


def test_a_foreground_call_in_flight_when_the_host_dies_ends_with_an_error_and_leaves_nothing(fresh):
    seen = {}

    def call():
        try:
            seen["answer"] = fresh.sh("sleep 82", timeout_seconds=20)
        except (Refused, AssertionError, OSError) as error:
            seen["answer"] = error

    thread = threading.Thread(target=call)
    thread.start()
    await_that("it runs", lambda: fresh.processes("sleep 82"))
    os.kill(host_and_sidecar(fresh)[0], signal.SIGKILL)
    thread.join(15)
    assert not thread.is_alive() and not (isinstance(seen["answer"], dict) and seen["answer"]["exit_code"] == 0)
    await_that("the endpoint answers again", lambda: answers(fresh), seconds=20)
    await_that("the process is gone", lambda: not fresh.processes("sleep 82"), seconds=10)


def record_files(place, job):
    return [path for path in place.workspace.rglob("*") if path.is_file() and job in path.name and path.suffix != ".log"
            and "jobs" in path.parts]


DAMAGE = [b"", b"{", b"null", b"[]", b"\xff\xff", b'{"id":"x"}', b"\0" * 4096, b"{" * 100_000]


def test_a_damaged_record_hides_no_other_job_and_is_not_deleted(fresh):
    good = fresh.job("exit 3")
    bad = [fresh.job("exit 4") for _ in DAMAGE]
    for job in (good, *bad):
        fresh.finish(job)
    damaged = {}
    for job, damage in zip(bad, DAMAGE, strict=True):
        for path in record_files(fresh, job):
            path.write_bytes(damage)
            damaged[path] = damage
    assert len(damaged) >= len(DAMAGE)
    os.kill(host_and_sidecar(fresh)[0], signal.SIGKILL)
    await_that("calls work again", lambda: answers(fresh), seconds=20)
    jobs = {job["id"]: job for job in fresh.call("exec_job_status")["jobs"]}
    assert jobs[good]["exitCode"] == 3
    for job in bad:
        assert jobs.get(job, {}).get("exitCode") in (None, 4)
        try:
            assert fresh.status(job)["exitCode"] in (None, 4)
        except Refused as refused:
            assert refused.code != "INTERNAL", refused
    assert all(path.exists() for path in damaged), "what cannot be read was deleted"
    again = fresh.job("exit 5")
    assert fresh.finish(again)["exitCode"] == 5


def test_a_record_that_names_a_strangers_pid_harms_no_stranger(fresh, tmp_path):
    """A record from before a restart may name a pid that now belongs to somebody else."""
    import subprocess
    stranger = subprocess.Popen(["sleep", "91"], cwd=tmp_path)
    try:
        job = fresh.job("sleep 92")
        record = fresh.status(job)
        os.kill(record["pid"], signal.SIGKILL)
        for pid in fresh.processes("sleep 92"):
            os.kill(pid, signal.SIGKILL)
        for path in record_files(fresh, job):
            text = path.read_text(errors="replace")
            for old in (record["pid"], record["childPid"]):
                text = text.replace(str(old), str(stranger.pid))
            path.write_text(text)
        out = fresh.call("exec_job_cancel", id=job, signal="KILL")["cancel"]
        assert out["signalled"] is False
        assert fresh.status(job)["state"] == "unknown" and stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_jobs_are_still_readable_after_down_and_up(fresh):
    job = fresh.job("echo kept; exit 2")
    fresh.finish(job)
    fresh.down()
    fresh.up()
    await_that("the endpoint answers", lambda: answers(fresh))
    assert fresh.status(job)["exitCode"] == 2 and fresh.call("exec_job_output", id=job)["output"] == "kept\n"


def test_down_leaves_no_process_behind(fresh):
    fresh.job(TREE)
    await_that("the tree is up", lambda: fresh.processes("sleep 75"))
    fresh.down()
    await_that("all is gone", lambda: not fresh.processes(), seconds=15)
