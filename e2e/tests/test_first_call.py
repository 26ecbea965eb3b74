"""From three lines of YAML to an answer."""

from kit import apply, await_ready, call, condition, environment, kubectl, kubectl_json


def test_three_lines_make_an_environment_that_answers(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    version = call(user, namespace, "cabin", "version")
    assert set(version) >= {"build", "commit", "date"}

    status = environment(namespace, "cabin")["status"]
    kinds = {c["type"]: c for c in status["conditions"]}
    for kind in ("Ready", "Anchored", "NetworkIsolated", "WorkspaceBound", "RuntimeAvailable"):
        assert kinds[kind]["status"] == "True", kinds[kind]
    assert all(c["reason"] and c["observedGeneration"] >= 1 for c in status["conditions"])
    assert status["endpoint"]["port"] == 17443 and "BEGIN CERTIFICATE" in status["endpoint"]["caBundle"]
    assert len(status["keys"]) == 1


def test_the_columns_say_what_matters(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    header, row = kubectl("-n", namespace, "get", "env").stdout.splitlines()
    assert header.split() == ["NAME", "READY", "REASON", "IDLE", "STOPS-AT", "AGE"]
    assert row.split()[:3] == ["cabin", "True", "Running"]
    wide = kubectl("-n", namespace, "get", "env", "-o", "wide").stdout
    assert "POD" in wide and "IMAGE" in wide


def test_explain_reads_well(user):
    text = kubectl("explain", "environment.spec.idle").stdout
    assert "timeoutSeconds" in text and "graceSeconds" in text


def test_the_runtime_is_the_restricted_container_it_should_be(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    pod = kubectl_json("-n", namespace, "get", "pod", "cabin")
    assert pod["spec"]["automountServiceAccountToken"] is False
    mounts = [m["mountPath"] for c in pod["spec"]["containers"] + pod["spec"]["initContainers"] for m in c["volumeMounts"]]
    assert not [m for m in mounts if "serviceaccount" in m]
    runtime = pod["spec"]["containers"][0]
    assert runtime["name"] == "runtime"
    assert not [m for m in runtime["volumeMounts"] if m["mountPath"].startswith(("/etc/erun", "/var/lib/cuddy"))]
    out = call(user, namespace, "cabin", "exec_raw", argv=["sh", "-c", "id -u; pwd; touch x && echo ok"])
    assert out["stdout"].split()[0] == "1000" and out["stdout"].split()[-1] == "ok"


def test_nothing_in_the_runtime_can_read_a_key_a_token_or_the_audit(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    # The pattern is put together in the shell, so that no process's own words match it.
    hunt = ("ls -la /etc/erun /var/lib/cuddy /var/run/secrets /run/secrets 2>/dev/null; "
            "grep -rlsE \"PRIVATE KEY-|eyJhbGciOi.+[.]|anchorGen\"eration / "
            "--exclude-dir=proc --exclude-dir=sys --exclude-dir=usr; "
            "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -iE 'token|secret|bearer|password'; "
            "cat /proc/[0-9]*/comm 2>/dev/null")
    out = call(user, namespace, "cabin", "exec_raw", argv=["sh", "-c", hunt])["stdout"]
    found = set(out.splitlines())
    assert found <= {"cuddy-host", "cuddy-job", "exe", "sh", "cat"}, found
    assert condition(environment(namespace, "cabin"), "Ready")["status"] == "True"
