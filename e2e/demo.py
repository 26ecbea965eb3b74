"""The demo: what a user does with a fresh cluster, every claim read from the API server or from the pod."""

import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import asynccontextmanager

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "tests"))

from mcp import ClientSession, StdioServerParameters  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402

from kit import await_condition, await_that, cuddy, environment, kubectl, kubectl_json, run  # noqa: E402

NAMESPACE, NAME = "cuddy-demo", "cabin"
THREE_LINES = f"apiVersion: cuddy.dev/v1alpha1\nkind: Environment\nmetadata: {{name: {NAME}, namespace: {NAMESPACE}}}\n"
FILE = "diary.txt"
START = time.monotonic()


def tell(claim, since):
    print(f"{time.monotonic() - START:7.1f} s  (+{time.monotonic() - since:5.1f} s)  {claim}", flush=True)


class Refused(Exception):
    """A tool answered with an error."""


@asynccontextmanager
async def client(env):
    """The official client over `cuddy mcp proxy`, as an editor starts it."""
    server = StdioServerParameters(
        command=os.path.join(os.environ["CUDDY_BIN"], "cuddy"),
        args=["mcp", "proxy", "--namespace", NAMESPACE, "--environment", NAME], env={**os.environ, **env})
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def run_in(session, *argv):
    """Runs a command in the environment and returns what it printed."""
    result = await session.call_tool("exec_raw", {"argv": list(argv)})
    if result.is_error:
        raise Refused(result.content[0].text)
    return result.structured_content["stdout"]


def main():
    home = tempfile.mkdtemp(prefix="cuddy-demo-")
    env = {"XDG_CONFIG_HOME": home}
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=60s", timeout=90)

    since = time.monotonic()
    nodes = kubectl_json("get", "nodes")["items"]
    tell(f"a real Kubernetes: {len(nodes)} node, kubelet {nodes[0]['status']['nodeInfo']['kubeletVersion']}, "
         f"{nodes[0]['status']['nodeInfo']['containerRuntimeVersion']}", since)

    since = time.monotonic()
    cuddy("key", "create", env=env)
    cuddy("class", "init", "--force", "--image", "cuddy.test/runtime:dev", "--image-pull-policy", "IfNotPresent", env=env)
    kubectl("patch", "environmentclass", "default", "--type=merge", "-p",
            json.dumps({"spec": {"idle": {"timeoutSeconds": 15, "graceSeconds": 2}}}))
    kubectl("create", "namespace", NAMESPACE)
    kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    tell("a key, the default class that trusts it, and a namespace under Pod Security \"restricted\"", since)

    since = time.monotonic()
    print("\n" + "".join(f"           | {line}\n" for line in THREE_LINES.splitlines()))
    kubectl("apply", "-f", "-", stdin=THREE_LINES)
    ready = await_condition(NAMESPACE, NAME, "Ready", seconds=120)
    isolated = next(c for c in environment(NAMESPACE, NAME)["status"]["conditions"] if c["type"] == "NetworkIsolated")
    tell(f"applied; Ready={ready['status']} ({ready['reason']}), NetworkIsolated={isolated['status']} ({isolated['reason']})", since)
    print(run("kubectl", "-n", NAMESPACE, "get", "env,pod,pvc,networkpolicy").stdout)

    asyncio.run(as_an_editor(env))


async def as_an_editor(env):
    since = time.monotonic()
    async with client(env) as session:
        tools = (await session.list_tools()).tools
        version = (await session.call_tool("version", {})).structured_content
        tell(f"the official Python client through `cuddy mcp proxy`: protocol {session.protocol_version}, {len(tools)} tools, "
             f"server build {version['build']}", since)

        since = time.monotonic()
        written, uid = (await run_in(session, "sh", "-c", f"echo 'dear diary' > {FILE}; sha256sum {FILE}; id -u")).splitlines()
        tell(f"exec_raw wrote {FILE} as uid {uid} in the pod: {written}", since)

        since = time.monotonic()
        before = (await run_in(session, "pgrep", "-f", "cuddy-host host")).split()[0]
        try:
            await run_in(session, "kill", "-9", before)
            answer = "an answer came all the same"
        except Refused as refused:
            answer = json.loads(str(refused))["errorCode"]
        after = await new_host(session, before)
        tell(f"the host process {before} was killed (the call that did it got: {answer}); init started {after}, and {FILE} reads "
             f"{(await run_in(session, 'cat', FILE)).strip()!r}", since)

        since = time.monotonic()
        pod_uid = environment(NAMESPACE, NAME)["status"]["podUID"]
        stopped = await_condition(NAMESPACE, NAME, "Suspended", reason="IdleStopped", seconds=180)
        await_that("no pod", lambda: not kubectl_json("-n", NAMESPACE, "get", "pods")["items"], 60)
        claim = kubectl_json("-n", NAMESPACE, "get", "pvc", f"{NAME}-workspace")["status"]["phase"]
        tell(f"nobody called: stopped ({stopped['message']}); no pod is left, the workspace is {claim}", since)

        since = time.monotonic()
        again = (await run_in(session, "sha256sum", FILE)).strip()
        status = environment(NAMESPACE, NAME)["status"]
        if again != written or status["podUID"] == pod_uid:
            raise SystemExit("the file did not survive, or the pod is the old one")
        tell(f"a tool call woke it: a new pod ({status['podUID'][:8]}, was {pod_uid[:8]}), and {FILE} is intact: {again}", since)


async def new_host(session, before):
    """Returns the process id of the host once it is another one."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            pid = (await run_in(session, "pgrep", "-f", "cuddy-host host")).split()[0]
            if pid != before:
                return pid
        except Refused as refused:
            if not json.loads(str(refused))["retryable"]:
                raise
        await asyncio.sleep(0.1)
    raise SystemExit("the host did not come back")


if __name__ == "__main__":
    main()
