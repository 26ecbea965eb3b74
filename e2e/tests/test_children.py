"""What the operator owns it keeps; what it does not own it leaves alone."""

import json
import time

from kit import apply, await_condition, await_ready, await_that, call, environment, kubectl, kubectl_json


def get(namespace, kind, name):
    done = kubectl("-n", namespace, "get", kind, name, "-o", "json", check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def test_a_deleted_or_edited_policy_comes_back(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    policy = get(namespace, "networkpolicy", "cabin")
    assert sorted(policy["spec"]["policyTypes"]) == ["Egress", "Ingress"]
    kubectl("-n", namespace, "delete", "networkpolicy", "cabin")
    again = await_that("the policy", lambda: get(namespace, "networkpolicy", "cabin"), seconds=10)
    assert again["metadata"]["uid"] != policy["metadata"]["uid"]
    kubectl("-n", namespace, "patch", "networkpolicy", "cabin", "--type=merge", "-p", '{"spec":{"egress":[{}]}}')
    await_that("the edit undone", lambda: {} not in get(namespace, "networkpolicy", "cabin")["spec"]["egress"], seconds=10)


def test_a_deleted_pod_comes_back(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    first = environment(namespace, "cabin")["status"]["podUID"]
    kubectl("-n", namespace, "delete", "pod", "cabin", "--wait=false")
    await_that("another pod", lambda: environment(namespace, "cabin")["status"].get("podUID") not in (None, "", first), seconds=60)
    await_ready(namespace, "cabin")


def test_the_anchor_is_the_sidecars_alone(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    secret = get(namespace, "secret", "cabin-anchor")
    assert set(secret["data"]) == {"anchor.json", "tls.crt", "tls.key", "ca.crt", "desktopid.pub"}
    owner = secret["metadata"]["ownerReferences"][0]
    assert owner["kind"] == "Environment" and owner["uid"] == environment(namespace, "cabin")["metadata"]["uid"]


def test_foreign_objects_of_the_same_name_are_neither_adopted_nor_deleted(user, namespace):
    kubectl("-n", namespace, "create", "secret", "generic", "cabin-anchor", "--from-literal=mine=yes")
    apply(namespace, "cabin")
    got = await_condition(namespace, "cabin", "Ready", status="False", seconds=20)
    assert "cabin-anchor" in got["message"]
    assert get(namespace, "secret", "cabin-anchor")["data"] == {"mine": "eWVz"}
    kubectl("-n", namespace, "delete", "environment", "cabin")
    assert get(namespace, "secret", "cabin-anchor")
    kubectl("-n", namespace, "delete", "secret", "cabin-anchor")
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")


def test_deleting_an_environment_takes_its_children_along(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    kubectl("-n", namespace, "delete", "environment", "cabin")
    for kind, name in (("pod", "cabin"), ("secret", "cabin-anchor"), ("networkpolicy", "cabin"), ("pvc", "cabin-workspace")):
        await_that(f"no {kind}", lambda k=kind, n=name: get(namespace, k, n) is None, seconds=60)


def test_while_nobody_works_nothing_is_written(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    await_condition(namespace, "cabin", "Idle", seconds=120)
    version = environment(namespace, "cabin")["metadata"]["resourceVersion"]
    until = time.monotonic() + 30
    while time.monotonic() < until:
        assert environment(namespace, "cabin")["metadata"]["resourceVersion"] == version
        time.sleep(1)


def test_a_burst_converges_though_the_operator_is_killed_in_it(user, namespace):
    kubectl("apply", "-f", "-", stdin=json.dumps({
        "apiVersion": "cuddy.dev/v1alpha1", "kind": "EnvironmentClass", "metadata": {"name": "tiny"},
        "spec": {**kubectl_json("get", "environmentclass", "default")["spec"],
                 "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}}}))
    names = [f"n{i:02}" for i in range(50)]
    documents = [{"apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment", "metadata": {"name": n},
                  "spec": {"classRef": {"name": "tiny"}}} for n in names]
    kubectl("-n", namespace, "apply", "-f", "-", stdin="\n---\n".join(json.dumps(d) for d in documents), timeout=120)
    kubectl("-n", "cuddy-system", "delete", "pod", "-l", "app.kubernetes.io/name=cuddy-operator", "--grace-period=0", "--force", "--wait=false")

    def ready():
        items = kubectl_json("-n", namespace, "get", "environments")["items"]
        return all(any(c["type"] == "Ready" and c["status"] == "True" for c in i.get("status", {}).get("conditions", [])) for i in items)

    await_that("50 ready environments", ready, seconds=420, every=2)
    pods = kubectl_json("-n", namespace, "get", "pods")["items"]
    assert sorted(p["metadata"]["name"] for p in pods) == names
    for name in names:
        assert call(user, namespace, name, "version")["build"]
