"""Activity leases: what keeps the environment up, and exclusive claims with one winner."""

import os
import signal
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from local_kit import Refused, await_that, outcome


def listed(place):
    return {lease["id"]: lease for lease in place.call("activity_lease_list")["leases"]}


def seconds_of(lease):
    parse = datetime.fromisoformat
    return (parse(lease["expiresAt"]) - parse(lease.get("renewedAt") or lease["startedAt"])).total_seconds()


def a_name():
    return f"lease-{uuid.uuid4().hex[:8]}"


def test_a_lease_from_take_to_release(local):
    name = a_name()
    taken = local.call("activity_lease_take", name=name)
    assert taken["lease"]["name"] == name and seconds_of(taken["lease"]) == pytest.approx(900, abs=2)
    assert name in {lease["name"] for lease in taken["leases"]}
    idle = local.call("idle")
    assert idle["eligible_for_stop"] is False and any(name in words for words in idle["blockers"])
    left = local.call("activity_lease_release", id=taken["lease"]["id"])["leases"]
    assert taken["lease"]["id"] not in {lease["id"] for lease in left}
    assert taken["lease"]["id"] not in listed(local)


def test_release_of_what_is_not_there_is_no_error(local):
    assert "leases" in local.call("activity_lease_release", id="no-such-lease")


def test_a_lease_that_one_holds_is_renewed_not_doubled(local):
    name = a_name()
    first = local.call("activity_lease_take", name=name, ttlSeconds=60)["lease"]
    again = local.call("activity_lease_take", name=name, ttlSeconds=120)["lease"]
    assert again["id"] == first["id"] and again["startedAt"] == first["startedAt"] and again["expiresAt"] > first["expiresAt"]
    assert list(listed(local)).count(first["id"]) == 1


def test_a_lease_ends_by_itself(local):
    lease = local.call("activity_lease_take", name=a_name(), ttlSeconds=1)["lease"]
    await_that("it is over", lambda: lease["id"] not in listed(local), seconds=5)


def test_a_lease_ends_with_its_process(local):
    holder = subprocess.Popen(["sleep", "60"])
    lease = local.call("activity_lease_take", name=a_name(), pid=holder.pid)["lease"]
    assert listed(local)[lease["id"]]["pid"] == holder.pid
    holder.kill()
    holder.wait()
    await_that("it is over", lambda: lease["id"] not in listed(local), seconds=5)


@pytest.mark.parametrize("pid", [2**31 - 1, 4194305, 2**32 + 1])
def test_a_lease_for_a_process_that_does_not_live_is_refused_or_gone_at_once(local, pid):
    try:
        lease = local.call("activity_lease_take", name=a_name(), pid=pid)["lease"]
    except Refused as refused:
        assert refused.code != "INTERNAL", refused
        return
    await_that("it is over", lambda: lease["id"] not in listed(local), seconds=5)


def test_an_exclusive_claim_lasts_five_minutes_and_covers_the_worktree(fresh):
    lease = fresh.call("activity_lease_take", name="me", exclusive=True)["lease"]
    assert lease["exclusive"] is True and lease["scope"] == "worktree" and seconds_of(lease) == pytest.approx(300, abs=2)


def test_a_second_exclusive_claim_is_refused_and_names_the_holder(local):
    scope, first = a_name(), a_name()
    local.call("activity_lease_take", name=first, exclusive=True, scope=scope)
    with pytest.raises(Refused) as refused:
        local.call("activity_lease_take", name=a_name(), exclusive=True, scope=scope)
    assert first in str(refused.value) and refused.value.code != "INTERNAL"
    # Another scope, and a plain lease, are free.
    assert local.call("activity_lease_take", name=a_name(), exclusive=True, scope=a_name())
    assert local.call("activity_lease_take", name=a_name())


def test_a_scope_is_free_again_after_release_and_after_expiry(local):
    scope = a_name()
    first = local.call("activity_lease_take", name=a_name(), exclusive=True, scope=scope)["lease"]
    local.call("activity_lease_release", id=first["id"])
    local.call("activity_lease_take", name=a_name(), exclusive=True, scope=scope, ttlSeconds=1)
    third = a_name()

    def take():
        try:
            return local.call("activity_lease_take", name=third, exclusive=True, scope=scope)
        except Refused:
            return None

    await_that("the scope is free", take, seconds=5)


@pytest.mark.parametrize("expired_first", [False, True])
def test_of_many_claims_at_once_exactly_one_wins(local, expired_first):
    for _ in range(3):
        scope = a_name()
        if expired_first:
            old = local.call("activity_lease_take", name=a_name(), exclusive=True, scope=scope, ttlSeconds=1)["lease"]
            await_that("the old one is nearly over", lambda o=old, s=scope: datetime.now().timestamp() >
                       datetime.fromisoformat(o["expiresAt"]).timestamp(), seconds=5)

        def claim(name, scope=scope):
            try:
                return local.call("activity_lease_take", name=name, exclusive=True, scope=scope)["lease"]
            except Refused as refused:
                return refused

        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(claim, [a_name() for _ in range(12)]))
        winners = [answer for answer in answers if isinstance(answer, dict)]
        assert len(winners) == 1, answers
        losers = [answer for answer in answers if isinstance(answer, Refused)]
        assert all(winners[0]["name"] in str(loser) for loser in losers), losers
        held = [lease for lease in listed(local).values() if lease.get("scope") == scope and lease.get("exclusive")]
        assert [lease["id"] for lease in held] == [winners[0]["id"]]


def test_the_holder_comes_from_the_bearer_and_not_from_the_arguments(local):
    lease = local.call("activity_lease_take", name=a_name())["lease"]
    assert lease["holder"]
    with pytest.raises(Refused) as refused:
        local.call("activity_lease_take", name=a_name(), holder="somebody")
    assert refused.value.path == "$.holder"


def as_other(place, tool, arguments, **claims):
    return outcome(place.tool(tool, arguments, token=place.token(**claims)).json)


def test_another_holder_can_neither_renew_nor_release_nor_take_over(local):
    scope, name = a_name(), a_name()
    lease = local.call("activity_lease_take", name=name, exclusive=True, scope=scope)["lease"]
    with pytest.raises(Refused) as refused:
        as_other(local, "activity_lease_release", {"id": lease["id"]}, sub="somebody", scope="erun:operate")
    assert refused.value.code != "INTERNAL"
    with pytest.raises(Refused):
        as_other(local, "activity_lease_take", {"name": name, "id": lease["id"], "exclusive": True, "scope": scope},
                 sub="somebody", scope="erun:operate")
    assert listed(local)[lease["id"]]["holder"] == lease["holder"]


def test_a_long_lease_wants_admin_and_nothing_lasts_beyond_twelve_hours(local):
    assert seconds_of(local.call("activity_lease_take", name=a_name(), ttlSeconds=43200)["lease"]) == pytest.approx(43200, abs=2)
    with pytest.raises(Refused):
        as_other(local, "activity_lease_take", {"name": a_name(), "ttlSeconds": 3601}, scope="erun:operate")
    assert as_other(local, "activity_lease_take", {"name": a_name(), "ttlSeconds": 3600}, scope="erun:operate")


def test_a_job_makes_the_environment_busy_from_its_first_moment(fresh):
    """"A job also holds an activity lease for its lifetime, so starting one makes the env read as busy." """
    for _ in range(2):
        job = fresh.job("sleep 30")
        idle = fresh.call("idle")
        fresh.call("exec_job_cancel", id=job, signal="KILL")
        assert f"job-{job}" in {lease["id"] for lease in idle["leases"]}, idle
        assert idle["activity"]["running_jobs"] >= 1 and idle["blockers"], idle


def test_the_lease_of_a_running_job_cannot_be_given_away(fresh):
    job = fresh.job("sleep 30")
    await_that("its lease is listed", lambda: f"job-{job}" in listed(fresh))
    with pytest.raises(Refused) as refused:
        fresh.call("activity_lease_release", id=f"job-{job}")
    assert "exec_job_cancel" in refused.value.text
    assert f"job-{job}" in listed(fresh)
    fresh.call("exec_job_cancel", id=job, signal="KILL")


@pytest.mark.parametrize("field", ["id", "scope"])
@pytest.mark.parametrize("value", ["../x", "a/b", ".x", "a\0b", "x" * 101, "ü☃", "a\nb"])
def test_odd_ids_and_scopes_write_nothing_outside_and_break_no_list(local, field, value):
    try:
        lease = local.call("activity_lease_take", name=a_name(), exclusive=field == "scope", ttlSeconds=30, **{field: value})["lease"]
    except Refused as refused:
        assert refused.path == f"$.{field}", refused
        return
    assert lease["id"] in listed(local)
    local.call("activity_lease_release", id=lease["id"])
    assert lease["id"] not in listed(local)


def test_sixty_leases_are_kept_or_refused_clearly(fresh):
    refusals = 0
    for n in range(60):
        try:
            fresh.call("activity_lease_take", name=f"many-{n}")
        except Refused as refused:
            assert refused.code != "INTERNAL", refused
            refusals += 1
    assert len(listed(fresh)) == 60 - refusals


def test_asking_is_no_activity_and_working_is(local):
    seen = local.call("idle")["activity"].get("last_call")
    local.call("version"), local.call("activity_lease_list"), local.call("exec_job_status")
    assert local.call("idle")["activity"].get("last_call") == seen
    local.sh("true")
    assert local.call("idle")["activity"]["last_call"] != seen


def test_leases_survive_the_death_of_the_host(fresh):
    lease = fresh.call("activity_lease_take", name="kept", exclusive=True)["lease"]
    host = [pid for pid, command in fresh.processes("cuddy-host").items() if " host " in command][0]
    os.kill(host, signal.SIGKILL)

    def still():
        try:
            return lease["id"] in listed(fresh)
        except (Refused, AssertionError, OSError):
            return False

    await_that("the lease is listed", still, seconds=15)
    with pytest.raises(Refused):
        fresh.call("activity_lease_take", name="other", exclusive=True)
