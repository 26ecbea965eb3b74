"""Idle, stop, wake."""

from kit import (apply, await_condition, await_ready, await_that, call, cuddy, environment, kubectl, kubectl_json)

QUICK = {"idle": {"timeoutSeconds": 10, "graceSeconds": 1}}


def pods(namespace):
    return kubectl_json("-n", namespace, "get", "pods")["items"]


def test_an_idle_environment_stops_and_a_call_wakes_it_with_its_files(user, namespace):
    apply(namespace, "cabin", QUICK)
    await_ready(namespace, "cabin")
    call(user, namespace, "cabin", "exec_raw", argv=["sh", "-c", "echo kept > file"])
    first = environment(namespace, "cabin")["status"]["podUID"]
    await_condition(namespace, "cabin", "Suspended", reason="IdleStopped", seconds=60)
    await_that("no pod", lambda: not pods(namespace))
    stop = environment(namespace, "cabin")["status"]["stop"]
    assert stop["at"] and stop["reason"]
    assert environment(namespace, "cabin")["spec"].get("mode", "Running") == "Running"

    out = call(user, namespace, "cabin", "exec_raw", argv=["cat", "file"])
    assert out["stdout"] == "kept\n"
    status = environment(namespace, "cabin")["status"]
    assert status["podUID"] != first and status["lastWake"]


def test_a_lease_keeps_it_up_and_the_status_says_so(user, namespace):
    apply(namespace, "cabin", QUICK)
    await_ready(namespace, "cabin")
    uid = environment(namespace, "cabin")["status"]["podUID"]
    taken = call(user, namespace, "cabin", "activity_lease_take", name="long build", ttlSeconds=30)
    assert taken["lease"]["name"] == "long build"
    idle = call(user, namespace, "cabin", "idle")
    assert not idle["eligible_for_stop"] and any("long build" in b or taken["lease"]["id"] in b for b in idle["blockers"])
    await_condition(namespace, "cabin", "Idle", status="False", reason="Busy", seconds=90)
    assert environment(namespace, "cabin")["status"]["podUID"] == uid
    call(user, namespace, "cabin", "activity_lease_release", id=taken["lease"]["id"])
    await_condition(namespace, "cabin", "Suspended", reason="IdleStopped", seconds=90)


def test_a_running_job_keeps_it_up(user, namespace):
    apply(namespace, "cabin", QUICK)
    await_ready(namespace, "cabin")
    call(user, namespace, "cabin", "exec_raw", argv=["sleep", "25"], wait=False, name="nap")
    uid = environment(namespace, "cabin")["status"]["podUID"]
    ended = call(user, namespace, "cabin", "exec_job_await", id="nap", timeoutSeconds=60)
    assert ended["job"]["exitCode"] == 0 and environment(namespace, "cabin")["status"]["podUID"] == uid
    await_condition(namespace, "cabin", "Suspended", reason="IdleStopped", seconds=90)


def test_what_a_person_holds_stopped_no_call_wakes(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    cuddy("env", "stop", "cabin", "--hold", "--namespace", namespace, env=user)
    await_condition(namespace, "cabin", "Suspended", reason="UserStopped", seconds=60)
    await_that("no pod", lambda: not pods(namespace))
    refused = call(user, namespace, "cabin", "version", check=False)
    assert refused.returncode != 0 and "env start" in refused.stderr + refused.stdout
    assert not pods(namespace)
    cuddy("env", "start", "cabin", "--namespace", namespace, env=user)
    await_ready(namespace, "cabin")


def test_a_stop_asked_for_by_id_happens_once(user, namespace):
    apply(namespace, "cabin")
    await_ready(namespace, "cabin")
    cuddy("env", "stop", "cabin", "--namespace", namespace, env=user)
    await_condition(namespace, "cabin", "Suspended", status="True", seconds=60)
    await_that("no pod", lambda: not pods(namespace))
    kubectl("-n", namespace, "annotate", "environment", "cabin", "cuddy.dev/wake=once")
    await_ready(namespace, "cabin")
    assert environment(namespace, "cabin")["status"]["lastWake"] == "once"


def test_asking_is_no_activity(user, namespace):
    apply(namespace, "cabin", QUICK)
    await_ready(namespace, "cabin")

    def stopped():
        # Asking a stopped environment wakes it, like every tool call, so that the stop is read from its history.
        call(user, namespace, "cabin", "idle", check=False)
        stop = environment(namespace, "cabin")["status"].get("stop") or {}
        return any(one["reason"] == "IdleStopped" for one in [stop, *stop.get("history", [])] if one.get("reason"))

    # `idle` is asked all the while; were it activity, the environment would never stop.
    await_that("the stop", stopped, seconds=90, every=1)
