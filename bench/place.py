"""The namespace, key and class that measurements use, and waiting for one Environment."""

import json
import os
import subprocess
import tempfile
import time

NAMESPACE = "cuddy-bench"
GROUP = "/apis/cuddy.dev/v1alpha1"
ENVIRONMENTS = f"{GROUP}/namespaces/{NAMESPACE}/environments"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
IMAGE = "cuddy.test/runtime:dev"


def cuddy(user, *args, check=True):
    return subprocess.run([os.path.join(os.environ["CUDDY_BIN"], "cuddy"), *args], env={**os.environ, **user},
                          capture_output=True, text=True, check=check, timeout=120)


def prepare(api):
    """Makes a key, the default class and an empty namespace; returns the user's environment variables."""
    user = {"XDG_CONFIG_HOME": tempfile.mkdtemp(prefix="cuddy-bench-")}
    cuddy(user, "key", "create")
    subprocess.run(["kubectl", "delete", "environmentclass", "default", "--ignore-not-found"], check=True, capture_output=True)
    cuddy(user, "class", "init", "--force", "--image", IMAGE, "--image-pull-policy", "IfNotPresent")
    subprocess.run(["kubectl", "delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=300s"], check=True, capture_output=True)
    api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    return user


def document(name, **spec):
    return {"apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment", "metadata": {"name": name}, "spec": spec}


def is_true(thing, kind):
    return any(c["type"] == kind and c["status"] == "True" for c in thing.get("status", {}).get("conditions", []))


def await_true(api, name, kind, seconds=180):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        thing = api.get(f"{ENVIRONMENTS}/{name}")
        if is_true(thing, kind):
            return thing
        time.sleep(0.05)
    raise SystemExit(f"{name} did not become {kind} in {seconds} s: {json.dumps(thing.get('status'))}")


def token(user, name):
    return cuddy(user, "mcp", "token", "--namespace", NAMESPACE, "--environment", name).stdout.strip()
