"""The network policy is proved before anything of the user's starts."""

import os
import subprocess

import pytest

from kit import apply, await_condition, await_ready, await_that, call, condition, environment, kubectl, kubectl_json

# Twenty pods fit onto one small node.
SMALL = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}}
CLUSTER = os.path.join(os.path.dirname(__file__), "..", "cluster")


def verb(*args):
    subprocess.run([os.path.join(CLUSTER, args[0]), *args[1:]], check=True, capture_output=True, timeout=120)


@pytest.fixture
def listener(namespace):
    """A pod that listens on port 8080 and is nobody's business: the path that must be closed."""
    kubectl("-n", namespace, "apply", "-f", "-", stdin="""
apiVersion: v1
kind: Pod
metadata: {name: listener, labels: {app: listener}}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  terminationGracePeriodSeconds: 0
  containers:
  - name: listener
    image: cuddy.test/kit:dev
    imagePullPolicy: IfNotPresent
    args: [serve, "8080", hello]
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  - name: control
    image: cuddy.test/runtime:dev
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
""")
    kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/listener", "--timeout=60s", timeout=90)
    return kubectl_json("-n", namespace, "get", "pod", "listener")["status"]["podIP"]


def test_the_first_instruction_of_twenty_pods_gets_nowhere(user, namespace, listener):
    tried = f"(timeout 3 bash -c 'echo > /dev/tcp/{listener}/8080' && echo open || echo closed) > first 2>&1; exec sleep infinity"
    for i in range(20):
        apply(namespace, f"c{i}", {"command": ["bash", "-c", tried], "network": {"egress": "Internet"}, "resources": SMALL})
    for i in range(20):
        await_ready(namespace, f"c{i}", seconds=300)
    # The control, in the same second as the last look: who may, gets through.
    for i in range(20):
        out = await_that("an attempt", lambda i=i: call(user, namespace, f"c{i}", "exec_raw", argv=["cat", "first"])["stdout"], seconds=30)
        assert out.strip().splitlines()[-1] == "closed", (i, out)
    control = kubectl("-n", namespace, "exec", "listener", "-c", "control", "--", "bash", "-c", f"echo > /dev/tcp/{listener}/8080 && echo open")
    assert control.stdout.strip() == "open"


def test_names_resolve_and_other_pods_do_not_answer(user, namespace, listener):
    apply(namespace, "cabin", {"network": {"egress": "Internet"}})
    await_ready(namespace, "cabin")
    out = call(user, namespace, "cabin", "exec_raw", argv=["getent", "hosts", "kubernetes.default.svc.cluster.local"])
    assert out["exit_code"] == 0, out
    out = call(user, namespace, "cabin", "exec_raw", argv=["timeout", "3", "bash", "-c", f"echo > /dev/tcp/{listener}/8080"])
    assert out["exit_code"] != 0
    out = call(user, namespace, "cabin", "exec_raw", argv=["timeout", "3", "bash", "-c", "echo > /dev/tcp/10.244.0.1/6443"])
    assert out["exit_code"] != 0


def test_egress_cluster_opens_pods_and_nothing_else(user, namespace, listener):
    apply(namespace, "cabin", {"network": {"egress": "Cluster"}})
    await_ready(namespace, "cabin")
    out = call(user, namespace, "cabin", "exec_raw", argv=["timeout", "5", "bash", "-c", f"echo > /dev/tcp/{listener}/8080"])
    assert out["exit_code"] == 0, out
    out = call(user, namespace, "cabin", "exec_raw", argv=["timeout", "3", "bash", "-c", "echo > /dev/tcp/10.244.0.1/6443"])
    assert out["exit_code"] != 0


def test_egress_none_closes_names_too(user, namespace):
    apply(namespace, "cabin", {"network": {"egress": "None"}})
    await_ready(namespace, "cabin")
    out = call(user, namespace, "cabin", "exec_raw", argv=["timeout", "5", "getent", "hosts", "kubernetes.default.svc.cluster.local"])
    assert out["exit_code"] != 0


def test_where_nobody_enforces_nothing_starts(user, namespace):
    verb("enforcer", "stop")
    try:
        apply(namespace, "cabin", {"command": ["bash", "-c", "touch started; exec sleep infinity"]})
        got = await_condition(namespace, "cabin", "NetworkIsolated", status="False", reason="NotEnforced", seconds=90)
        assert got["message"]
        assert condition(environment(namespace, "cabin"), "Ready")["status"] == "False"
        home = kubectl("-n", namespace, "exec", "cabin", "-c", "runtime", "--", "ls", "/home/erun").stdout
        assert "started" not in home
    finally:
        verb("enforcer", "start")
    await_ready(namespace, "cabin", seconds=120)


def test_under_report_it_starts_and_says_so(user, namespace):
    verb("enforcer", "stop")
    try:
        apply(namespace, "cabin", {"network": {"verify": "Report"}})
        await_ready(namespace, "cabin", seconds=90)
        got = condition(environment(namespace, "cabin"), "NetworkIsolated")
        assert got["status"] == "False" and got["reason"] in ("NotEnforced", "Reported")
    finally:
        verb("enforcer", "start")


def test_enforcement_by_drop_opens_the_gate_too(user, namespace):
    """kube-router rejects; other plugins drop. The enforcer is off, and a rule of ours drops what the policy forbids."""
    verb("enforcer", "stop")
    rules = ("add table inet cuddydrop; add chain inet cuddydrop f { type filter hook forward priority -10; }; "
             "add rule inet cuddydrop f tcp dport { 17002, 17082 } drop; add rule inet cuddydrop f tcp dport 8080 drop")
    verb("node-exec", "nft", rules)
    try:
        # Traffic of one bridge passes the forward hook, since bridge-nf-call-iptables is on.
        apply(namespace, "cabin")
        await_condition(namespace, "cabin", "NetworkIsolated", reason="Verified", seconds=60)
        await_ready(namespace, "cabin")
    finally:
        verb("node-exec", "nft", "delete table inet cuddydrop")
        verb("enforcer", "start")


def test_a_canary_that_is_down_proves_nothing(user, namespace):
    """The operator's allowed listener is cut off: then no answer may count as isolation."""
    rules = ("add table inet cuddycut; add chain inet cuddycut f { type filter hook forward priority -10; }; "
             "add rule inet cuddycut f tcp dport 17081 drop")
    verb("node-exec", "nft", rules)
    try:
        apply(namespace, "cabin")
        await_condition(namespace, "cabin", "NetworkIsolated", status="Unknown", reason="CanaryUnreachable", seconds=90)
        assert condition(environment(namespace, "cabin"), "Ready")["status"] == "False"
    finally:
        verb("node-exec", "nft", "delete table inet cuddycut")
    await_ready(namespace, "cabin", seconds=120)
