"""What cannot work is said at once, in words, and mends by itself once mended."""

import textwrap
from datetime import datetime, timezone

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from kit import apply, await_condition, await_ready, await_that, condition, environment, kubectl, kubectl_json


def pem(key):
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


GOOD = pem(ed25519.Ed25519PrivateKey.generate())


def keys(text):
    return {"auth": {"keys": [{"name": "k", "publicKey": text}]}}


@pytest.mark.parametrize("what,name,spec,words", [
    ("a text that is no PEM", "cabin", keys("hello"), "Ed25519"),
    ("an RSA key", "cabin", keys(pem(rsa.generate_private_key(65537, 2048))), "Ed25519"),
    ("a private key", "cabin", keys(ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()), "private key"),
    ("a name of 53 characters", "x" * 53, None, "52"),
    ("a timeout of 9 seconds", "cabin", {"idle": {"timeoutSeconds": 9}}, "timeoutSeconds"),
    ("a mode that is none", "cabin", {"mode": "Sleeping"}, "mode"),
    ("uid 0", "cabin", {"security": {"runAsUser": 0}}, "runAsUser"),
    ("a mount path in /etc", "cabin", {"workspace": {"mountPath": "/etc"}}, "mountPath"),
    ("a field that is none", "cabin", {"serviceAccountName": "admin"}, "serviceAccountName"),
])
def test_apply_refuses(user, namespace, what, name, spec, words):
    done = apply(namespace, name, spec, check=False)
    assert done.returncode != 0 and words in done.stderr, (what, done.stderr)
    assert "PRIVATE" not in done.stderr or what != "a private key"
    assert not kubectl_json("-n", namespace, "get", "environments")["items"]


def test_a_workspace_does_not_shrink(user, namespace):
    apply(namespace, "cabin", {"workspace": {"size": "2Gi"}})
    done = apply(namespace, "cabin", {"workspace": {"size": "1Gi"}}, check=False)
    assert done.returncode != 0 and "shrink" in done.stderr


def test_an_unknown_class_is_named_with_the_way_on(user, namespace):
    apply(namespace, "cabin", {"classRef": {"name": "nowhere"}})
    got = await_condition(namespace, "cabin", "Ready", status="False", reason="Invalid", seconds=20)
    assert "nowhere" in got["message"] and "kubectl get environmentclasses" in got["message"]


def config_map(namespace, name, value, label=True):
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key.pub": value}}
    if label:
        document["metadata"]["labels"] = {"cuddy.dev/keys": "true"}
    import json
    kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(document))


def by_reference(name):
    return {"auth": {"keys": [{"name": "k", "configMapRef": {"name": name, "key": "key.pub"}}]}}


def test_a_missing_config_map_is_named_and_heals(user, namespace):
    apply(namespace, "cabin", by_reference("our-keys"))
    got = await_condition(namespace, "cabin", "Anchored", status="False", reason="KeySourceMissing", seconds=20)
    assert "our-keys" in got["message"]
    config_map(namespace, "our-keys", GOOD)
    await_ready(namespace, "cabin")


def test_a_bad_key_in_a_config_map_is_named_without_a_byte_of_it(user, namespace):
    config_map(namespace, "our-keys", "SECRETLOOKINGVALUE")
    apply(namespace, "cabin", by_reference("our-keys"))
    got = await_condition(namespace, "cabin", "Anchored", status="False", reason="BadKey", seconds=20)
    assert "our-keys" in got["message"] and "key.pub" in got["message"]
    assert "SECRETLOOKINGVALUE" not in str(environment(namespace, "cabin"))
    config_map(namespace, "our-keys", GOOD)
    await_ready(namespace, "cabin")


def test_an_image_that_cannot_be_pulled_is_said_in_the_kubelets_words(user, namespace):
    apply(namespace, "cabin", {"image": "cuddy.test/no-such-image:dev"})
    got = await_condition(namespace, "cabin", "RuntimeAvailable", status="False", reason="ImageError", seconds=30)
    assert "no-such-image" in got["message"]


def test_a_full_quota_is_said_in_the_api_servers_words_and_heals(user, namespace):
    kubectl("-n", namespace, "create", "quota", "none", "--hard=pods=0")
    await_that("the quota to count", lambda: kubectl_json("-n", namespace, "get", "quota", "none")["status"].get("hard"))
    apply(namespace, "cabin")
    got = await_condition(namespace, "cabin", "RuntimeAvailable", status="False", reason="QuotaExceeded", seconds=20)
    assert "exceeded quota" in got["message"]
    kubectl("-n", namespace, "delete", "quota", "none")
    await_ready(namespace, "cabin", seconds=120)


def test_a_limit_range_that_refuses_is_said_and_heals(user, namespace):
    kubectl("-n", namespace, "apply", "-f", "-", stdin=textwrap.dedent("""
        apiVersion: v1
        kind: LimitRange
        metadata: {name: big}
        spec: {limits: [{type: Container, min: {memory: 8Gi}}]}
    """))
    apply(namespace, "cabin")
    got = await_condition(namespace, "cabin", "RuntimeAvailable", status="False", reason="AdmissionRefused", seconds=20)
    assert "minimum memory usage per Container" in got["message"]
    kubectl("-n", namespace, "delete", "limitrange", "big")
    await_ready(namespace, "cabin", seconds=120)


def test_a_refusal_is_in_the_status_within_three_seconds_and_not_in_a_hot_loop(user, namespace):
    kubectl("-n", namespace, "create", "quota", "none", "--hard=pods=0")
    await_that("the quota to count", lambda: kubectl_json("-n", namespace, "get", "quota", "none")["status"].get("hard"))
    applied = datetime.now(timezone.utc)
    apply(namespace, "cabin")
    got = await_condition(namespace, "cabin", "RuntimeAvailable", status="False", reason="QuotaExceeded", seconds=20)
    told = datetime.fromisoformat(got["lastTransitionTime"].replace("Z", "+00:00"))
    assert (told - applied).total_seconds() <= 3
    version = environment(namespace, "cabin")["metadata"]["resourceVersion"]
    # Nothing changes, so nothing is written: the version stays while the operator retries with growing pauses.
    import time
    until = time.monotonic() + 6
    while time.monotonic() < until:
        assert environment(namespace, "cabin")["metadata"]["resourceVersion"] == version
        time.sleep(0.5)
    assert condition(environment(namespace, "cabin"), "Ready")["status"] == "False"
