"""Sessions: eight of them, two requests in flight each, and honest words about one that is gone."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from local_kit import await_that


def ping(place, session):
    return place.rpc("ping", session=session).status


def test_the_ninth_session_evicts_the_least_recently_used(fresh):
    sessions = [fresh.initialize().session for _ in range(8)]
    assert len(set(sessions)) == 8 and all(len(s) == 36 for s in sessions)
    assert ping(fresh, sessions[0]) == 200  # now the second is the oldest
    ninth = fresh.initialize()
    assert ninth.status == 200
    assert ping(fresh, sessions[1]) == 404
    assert [ping(fresh, s) for s in [sessions[0], *sessions[2:], ninth.session]] == [200] * 8


def test_the_evicted_one_may_start_anew(fresh):
    first = fresh.initialize().session
    for _ in range(8):
        fresh.initialize()
    reply = fresh.rpc("tools/list", {}, session=first)
    assert reply.status == 404 and reply.json["error"]["code"] == -32001
    again = fresh.rpc("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, session=first)
    assert again.status == 200 and again.session != first


def test_with_all_eight_busy_the_ninth_still_gets_in_and_every_call_is_answered(fresh):
    sessions = [fresh.initialize().session for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(fresh.tool, "exec_raw", {"argv": ["sleep", "2.4"]}, session=s) for s in sessions]
        await_that("the calls run", lambda: len(fresh.processes("sleep 2.4")) >= 8)
        ninth = fresh.initialize()
        assert ninth.status == 200 and ping(fresh, ninth.session) == 200
        replies = [call.result(timeout=15) for call in calls]
    assert all(reply.status in (200, 404, 503) for reply in replies)
    assert sum(reply.status == 200 and "result" in reply.json for reply in replies) >= 7
    await_that("the processes are gone", lambda: not fresh.processes("sleep 2.4"))
    assert [ping(fresh, s) for s in [*sessions, ninth.session]].count(200) == 8


def test_a_third_request_at_once_is_429_and_runs_nothing(local):
    session = local.initialize().session
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(local.tool, "exec_raw", {"argv": ["sleep", "1.7"]}, session=session, id=n) for n in (1, 2)]
        await_that("both run", lambda: len(local.processes("sleep 1.7")) >= 2)
        third = local.tool("exec_raw", {"argv": ["touch", "by-the-third"]}, session=session, id=3)
        assert third.status == 429 and third.headers["retry-after"] == "1"
        # Another session is not held up, nor is a caller without one.
        assert ping(local, local.initialize().session) == 200 and local.rpc("ping").status == 200
        # A notification is no request: the cancel must pass.
        note = local.rpc("notifications/cancelled", {"requestId": 1}, id=None, session=session)
        assert note.status in (202, 204)
        assert [r.result().status for r in running].count(200) >= 1
    assert not (local.workspace / "by-the-third").exists()
    assert ping(local, session) == 200


def test_a_refused_or_broken_request_gives_its_place_in_flight_back(local):
    session = local.initialize().session
    for _ in range(5):
        assert local.request(body=b"{bad", headers={"Mcp-Session-Id": session}).status == 400
        assert local.request(body=b"[]", headers={"Mcp-Session-Id": session}).status == 400
        assert local.tool("nope", {}, session=session).status == 200
        local.request(body={"jsonrpc": "2.0", "id": 1, "method": "ping"}, token="x", headers={"Mcp-Session-Id": session})
    assert ping(local, session) == 200


def test_a_client_that_hangs_up_gives_its_place_in_flight_back(local):
    session = local.initialize().session
    for _ in range(4):
        try:
            local.tool("exec_raw", {"argv": ["sleep", "20.5"]}, session=session, timeout=0.4)
        except TimeoutError:
            pass
    await_that("the places are free", lambda: ping(local, session) == 200)
    await_that("the processes are dead", lambda: not local.processes("sleep 20.5"))


def test_a_session_that_never_was_is_404_in_every_way(local):
    for session in (str(uuid.uuid4()), "x", "", "../x", "a" * 5000, "0" * 36):
        reply = local.rpc("tools/list", {}, headers={"Mcp-Session-Id": session})
        assert reply.status in ((404,) if session else (200, 400, 404)), (session, reply.text)
    gone = {"Mcp-Session-Id": str(uuid.uuid4())}
    assert local.request("DELETE", headers=gone).status == 404
    assert local.request("GET", headers=gone).status in (404, 405)


def test_a_stale_session_runs_nothing(local):
    local.tool("exec_raw", {"argv": ["touch", "by-stale"]}, session=str(uuid.uuid4()))
    assert not (local.workspace / "by-stale").exists()


def test_delete_ends_a_session_once(local):
    session = local.initialize().session
    assert local.request("DELETE", headers={"Mcp-Session-Id": session}).status in (200, 202, 204)
    assert ping(local, session) == 404
    assert local.request("DELETE", headers={"Mcp-Session-Id": session}).status == 404


def test_delete_without_a_session_is_no_success(local):
    assert local.request("DELETE").status in (400, 404, 405)


def test_get_is_405_or_a_stream_and_never_hangs_the_server(local):
    reply = local.request("GET", headers={"Accept": "text/event-stream"})
    assert reply.status == 405 and "POST" in reply.headers.get("allow", "")
    assert local.rpc("ping").status == 200


def test_calls_without_a_session_work(local):
    assert local.rpc("tools/list", {}).status == 200 and local.call("version")["build"]


def test_two_session_headers_are_not_guessed_about(local):
    one, two = local.initialize().session, local.initialize().session
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    answer = local.raw(local.head(f"Mcp-Session-Id: {one}", f"Mcp-Session-Id: {two}", f"Content-Length: {len(body)}") + body)
    assert " 400 " in answer.splitlines()[0] or " 404 " in answer.splitlines()[0], answer


def test_fifty_abandoned_initializes_leave_the_server_well(fresh):
    def many(_):
        return [fresh.initialize().status for _ in range(10)]

    with ThreadPoolExecutor(5) as pool:
        assert all(status == 200 for batch in pool.map(many, range(5)) for status in batch)
    session = fresh.initialize().session
    began = time.monotonic()
    assert ping(fresh, session) == 200 and time.monotonic() - began < 1
