"""The demo: what a user does with a fresh cluster, every claim read from the API server or from the pod."""

import asyncio
import json
import os
import sys
import tempfile
import time

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


async def through_proxy(env, calls):
    """Starts the official client over `cuddy mcp proxy` and makes calls with it; returns their structured results."""
    server = StdioServerParameters(
        command=os.path.join(os.environ["CUDDY_BIN"], "cuddy"),
        args=["mcp", "proxy", "--namespace", NAMESPACE, "--environment", NAME], env={**os.environ, **env})
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        listed = await session.list_tools()
        results = []
        for tool, arguments in calls:
            result = await session.call_tool(tool, arguments)
            if result.is_error:
                raise SystemExit(f"{tool} failed: {result.content[0].text}")
            results.append(result.structured_content)
        return hello, listed, results


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
    cuddy("class", "init", "--force", "--image", "cuddy.test/runtime:dev", env=env)
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

    since = time.monotonic()
    hello, listed, results = asyncio.run(through_proxy(env, [
        ("version", {}),
        ("exec_raw", {"argv": ["sh", "-c", f"echo 'dear diary' > {FILE}; sha256sum {FILE}; id -u"]})]))
    written = results[1]["stdout"].splitlines()
    tell(f"the official Python client through `cuddy mcp proxy`: protocol {hello.protocol_version}, {len(listed.tools)} tools, "
         f"server build {results[0]['build']}", since)
    tell(f"exec_raw wrote {FILE} as uid {written[1]} in the pod: {written[0]}", since)

    since = time.monotonic()
    _, _, results = asyncio.run(through_proxy(env, [
        ("exec_raw", {"argv": ["pgrep", "-f", "cuddy-host host"]})]))
    before = results[0]["stdout"].split()[0]
    asyncio.run(through_proxy(env, [
        ("exec_raw", {"argv": ["sh", "-c", f"(sleep 0.2; kill -9 {before}) > /dev/null 2>&1 &"], "wait": False, "name": "kill-host"})]))
    after = await_that("a new host process", lambda: other_host(env, before), 30)
    tell(f"the host process {before} was killed with SIGKILL; init started {after[0]}, and {FILE} reads {after[1]!r}", since)

    since = time.monotonic()
    pod_uid = environment(NAMESPACE, NAME)["status"]["podUID"]
    stopped = await_condition(NAMESPACE, NAME, "Suspended", reason="IdleStopped", seconds=180)
    pods = await_that("no pod", lambda: not kubectl_json("-n", NAMESPACE, "get", "pods")["items"], 60)
    claim = kubectl_json("-n", NAMESPACE, "get", "pvc", f"{NAME}-workspace")["status"]["phase"]
    tell(f"nobody called: {stopped['message']} Pods left: {0 if pods else 'some'}; workspace {claim}", since)

    since = time.monotonic()
    _, _, results = asyncio.run(through_proxy(env, [("exec_raw", {"argv": ["sha256sum", FILE]})]))
    status = environment(NAMESPACE, NAME)["status"]
    if results[0]["stdout"].strip() != written[0].strip() or status["podUID"] == pod_uid:
        raise SystemExit("the file did not survive, or the pod is the old one")
    tell(f"a tool call woke it: a new pod ({status['podUID'][:8]}, was {pod_uid[:8]}), and {FILE} is intact: {results[0]['stdout'].strip()}", since)


def other_host(env, before):
    try:
        _, _, results = asyncio.run(through_proxy(env, [
            ("exec_raw", {"argv": ["sh", "-c", f"pgrep -f 'cuddy-host host' | head -1; cat {FILE}"]})]))
    except SystemExit:
        return None
    pid, text = results[0]["stdout"].splitlines()
    return (pid, text) if pid != before else None


if __name__ == "__main__":
    main()
