"""Running kubectl and cuddy, applying Environments, and waiting on conditions with a deadline."""

import json
import os
import subprocess
import sys
import time

import yaml


def run(*command, env=None, stdin=None, timeout=60, check=True):
    """Runs a command and returns its completed process, output as text; a failure shows both streams."""
    full = {**os.environ, **(env or {})}
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, env=full)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def kubectl(*args, **kwargs):
    return run("kubectl", *args, **kwargs)


def kubectl_json(*args, **kwargs):
    return json.loads(kubectl(*args, "-o", "json", **kwargs).stdout)


def cuddy(*args, env, **kwargs):
    return run(os.path.join(os.environ["CUDDY_BIN"], "cuddy"), *args, env=env, **kwargs)


def apply(namespace, name, spec=None, **kwargs):
    """Applies an Environment; without a spec it is three lines."""
    document = {"apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment", "metadata": {"name": name}}
    if spec is not None:
        document["spec"] = spec
    return kubectl("-n", namespace, "apply", "-f", "-", stdin=yaml.safe_dump(document), **kwargs)


def environment(namespace, name):
    return kubectl_json("-n", namespace, "get", "environment", name)


def condition(thing, kind):
    """Returns a condition of an object as a dict, or an empty one."""
    conditions = thing.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


def await_that(what, probe, seconds=60, every=0.2):
    """Returns the first true answer of a probe; says what was waited for, and the last answer, when time is up."""
    until, last = time.monotonic() + seconds, None
    while time.monotonic() < until:
        last = probe()
        if last:
            return last
        time.sleep(every)
    raise AssertionError(f"waited {seconds} s for {what}; last: {last!r}")


def await_condition(namespace, name, kind, status="True", reason=None, seconds=60):
    seen = {}

    def probe():
        got = condition(environment(namespace, name), kind)
        seen.update(got)
        return got if got.get("status") == status and reason in (None, got.get("reason")) else None

    try:
        return await_that(f"{name} {kind}={status} {reason or ''}", probe, seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}; condition was {seen}") from None


def await_ready(namespace, name, seconds=60):
    return await_condition(namespace, name, "Ready", seconds=seconds)


def call(user, namespace, environment, tool, /, check=True, **arguments):
    """Calls a tool through `cuddy mcp call` and returns its structured result; with check=False the finished process."""
    done = cuddy("mcp", "call", "--namespace", namespace, "--environment", environment, "--tool", tool, "--args",
                 json.dumps(arguments), "--output", "json", env=user, timeout=120, check=check)
    return json.loads(done.stdout)["structured"] if check else done


def dump(namespace):
    """Prints what a failed test leaves to look at."""
    for args in (["get", "environments,pods,pvc,networkpolicies", "-o", "wide"], ["get", "environments", "-o", "yaml"],
                 ["get", "events", "--sort-by=.lastTimestamp"]):
        print(kubectl("-n", namespace, *args, check=False).stdout, file=sys.stderr)
    for pod in kubectl_json("-n", namespace, "get", "pods")["items"]:
        for container in ("install", "sidecar", "runtime"):
            log = kubectl("-n", namespace, "logs", pod["metadata"]["name"], "-c", container, "--tail=40", check=False)
            print(f"--- {pod['metadata']['name']}/{container}\n{log.stdout}", file=sys.stderr)
    print(kubectl("-n", "cuddy-system", "logs", "-l", "app.kubernetes.io/name=cuddy-operator", "--tail=60",
                  check=False).stdout, file=sys.stderr)
