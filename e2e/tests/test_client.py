"""The official Python client through `cuddy mcp proxy`, as an editor would start it."""

import asyncio
import json
import os
import signal

import pytest
from mcp import ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from kit import apply, await_ready, await_that, call, kubectl, kubectl_json


def server(user, namespace, name="cabin"):
    return StdioServerParameters(
        command=os.path.join(os.environ["CUDDY_BIN"], "cuddy"),
        args=["mcp", "proxy", "--namespace", namespace, "--environment", name], env={**os.environ, **user})


def with_client(user, namespace, body):
    async def main():
        async with stdio_client(server(user, namespace)) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            return await body(session)

    return asyncio.run(asyncio.wait_for(main(), 180))


@pytest.fixture
def cabin(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    return namespace


def test_it_lists_and_calls(user, cabin):
    async def body(session):
        tools = {t.name: t for t in (await session.list_tools()).tools}
        assert {"version", "idle", "usage", "exec_raw", "exec_job_status", "exec_job_await", "exec_job_output",
                "exec_job_cancel", "activity_lease_list", "activity_lease_take", "activity_lease_release"} <= set(tools)
        assert tools["version"].annotations.read_only_hint and not tools["exec_raw"].annotations.read_only_hint
        out = await session.call_tool("exec_raw", {"argv": ["echo", "hello"]})
        assert out.structured_content["stdout"] == "hello\n" and not out.is_error
        bad = await session.call_tool("exec_raw", {"argv": "echo"})
        assert bad.is_error and "$.argv" in bad.content[0].text
        with pytest.raises(MCPError):
            await session.call_tool("no_such_tool", {})

    with_client(user, cabin, body)


def test_two_calls_at_once_do_not_wait_for_each_other(user, cabin):
    async def body(session):
        slow = asyncio.create_task(session.call_tool("exec_raw", {"argv": ["sh", "-c", "while [ ! -e go ]; do sleep 0.1; done; echo slow"]}))
        quick = await session.call_tool("exec_raw", {"argv": ["touch", "go"]})
        assert quick.structured_content["exit_code"] == 0
        assert (await slow).structured_content["stdout"] == "slow\n"

    with_client(user, cabin, body)


def test_progress_comes_while_a_call_runs(user, cabin):
    async def body(session):
        seen = []

        async def on(progress, total, message):
            seen.append((progress, message))

        await session.call_tool("exec_raw", {"argv": ["sleep", "6"], "wait": False, "name": "nap"})
        out = await session.call_tool("exec_job_await", {"id": "nap", "timeoutSeconds": 30}, progress_callback=on)
        assert out.structured_content["job"]["exitCode"] == 0
        assert seen and [p for p, _ in seen] == sorted({p for p, _ in seen})

    with_client(user, cabin, body)


def test_a_cancelled_call_ends_its_process(user, cabin):
    async def body(session):
        task = asyncio.create_task(session.call_tool("exec_raw", {"argv": ["sleep", "4321"]}))
        while True:
            out = await session.call_tool("exec_raw", {"argv": ["pgrep", "-f", "^sleep 4321"]})
            if out.structured_content["exit_code"] == 0:
                break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(100):
            out = await session.call_tool("exec_raw", {"argv": ["pgrep", "-f", "^sleep 4321"]})
            if out.structured_content["exit_code"] == 1:
                return
        raise AssertionError("the process of a cancelled call still runs")

    with_client(user, cabin, body)


def test_it_recovers_when_the_sidecar_is_replaced_under_it(user, cabin):
    async def body(session):
        before = (await session.call_tool("version", {})).structured_content
        kubectl("-n", cabin, "delete", "pod", "cabin", "--wait=false")
        after = (await session.call_tool("version", {})).structured_content
        assert after == before

    with_client(user, cabin, body)


def test_a_job_outlives_a_killed_sidecar_and_a_killed_host(user, cabin):
    call(user, cabin, "cabin", "exec_raw", argv=["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i; sleep 1; done"],
         wait=False, name="count")
    host = call(user, cabin, "cabin", "exec_raw", argv=["pgrep", "-f", "cuddy-host host"])["stdout"].split()[0]
    call(user, cabin, "cabin", "exec_raw", argv=["kill", "-9", host], check=False)
    kill_sidecar(cabin)
    ended = await_that("the job's end", lambda: finished(user, cabin), seconds=90)
    assert ended["exitCode"] == 0 and ended["state"] == "exited"
    page = call(user, cabin, "cabin", "exec_job_output", id="count")
    assert page["output"].split() == [str(i) for i in range(1, 13)] and page["complete"]


def finished(user, namespace):
    done = call(user, namespace, "cabin", "exec_job_status", id="count", check=False)
    if done.returncode != 0:
        return None
    job = json.loads(done.stdout)["structured"]["job"]
    return job if job["state"] != "running" else None


def kill_sidecar(namespace):
    """Kills the sidecar's process from the node, since nobody in the pod can, and waits for its successor."""
    before = restarts(namespace)
    pod = kubectl_json("-n", namespace, "get", "pod", "cabin")
    uid = pod["metadata"]["uid"]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cgroup") as cgroup, open(f"/proc/{pid}/comm") as comm:
                if uid in cgroup.read().replace("_", "-") and comm.read().strip() == "cuddy-sidecar":
                    os.kill(int(pid), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue
    await_that("the sidecar's restart", lambda: restarts(namespace) > before, seconds=60)


def restarts(namespace):
    statuses = kubectl_json("-n", namespace, "get", "pod", "cabin")["status"]["initContainerStatuses"]
    return next(s["restartCount"] for s in statuses if s["name"] == "sidecar")
