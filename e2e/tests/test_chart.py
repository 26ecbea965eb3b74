"""The chart: lint, upgrade and uninstall with environments running."""

import os
import uuid

from kit import apply, await_ready, await_that, call, environment, kubectl, kubectl_json, run

HERE = os.path.dirname(os.path.abspath(__file__))
CHARTS = os.path.join(HERE, "..", "..", "charts")


def test_it_lints_and_renders():
    run(os.path.join(CHARTS, "check"), "helm", timeout=120)


def test_an_upgrade_restarts_no_environment(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    pod = environment(namespace, "cabin")["status"]["podUID"]
    operator = operator_pods()
    run("helm", "upgrade", "cuddy", os.path.join(CHARTS, "cuddy"), "--namespace", "cuddy-system", "--reuse-values",
        "--set", f"log=info\\,{uuid.uuid4().hex[:8]}=info", timeout=120)
    kubectl("-n", "cuddy-system", "rollout", "status", "deployment/cuddy-operator", "--timeout=120s", timeout=150)
    await_that("another operator", lambda: operator_pods() and not operator_pods() & operator, seconds=60)
    assert call(user, namespace, "cabin", "version")["build"]
    status = environment(namespace, "cabin")["status"]
    assert status["podUID"] == pod
    assert next(c for c in status["conditions"] if c["type"] == "Ready")["status"] == "True"


def test_uninstalling_the_operator_leaves_environments_and_their_users_alone(user, namespace, tmp_path):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    pod = environment(namespace, "cabin")["status"]["podUID"]
    values = tmp_path / "values.yaml"
    values.write_text(run("helm", "get", "values", "cuddy", "--namespace", "cuddy-system", "-o", "yaml").stdout)
    try:
        run("helm", "uninstall", "cuddy", "--namespace", "cuddy-system", "--wait", timeout=120)
        assert call(user, namespace, "cabin", "version")["build"]
    finally:
        run("helm", "install", "cuddy", os.path.join(CHARTS, "cuddy"), "--namespace", "cuddy-system", "-f", str(values), "--wait",
            timeout=180)
    await_ready(namespace, "cabin")
    assert environment(namespace, "cabin")["status"]["podUID"] == pod


def operator_pods():
    pods = kubectl_json("-n", "cuddy-system", "get", "pods", "-l", "app.kubernetes.io/name=cuddy-operator")["items"]
    return {p["metadata"]["uid"] for p in pods}
