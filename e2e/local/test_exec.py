"""exec_raw: what it runs, where, with what limits, and that nothing of it is left behind."""

import base64
import os
import threading
import time
from pathlib import Path

import pytest

from local_kit import Refused, alive, await_that

CAP = 1 << 20


def rss(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def nothing_left(place, before):
    """Waits until the processes of the environment are those from before."""
    await_that("the set of processes is as before", lambda: set(place.processes()) == set(before))


@pytest.fixture
def before(local):
    """The processes before the test; after it they must be the same."""
    processes = local.processes()
    yield processes
    await_that("the set of processes is as before", lambda: set(local.processes()) <= set(processes))


# Results.

def test_streams_and_exit_code_come_back_apart(local):
    out = local.sh("echo out; echo err >&2; exit 7")
    assert (out["stdout"], out["stderr"], out["exit_code"], out["truncated"]) == ("out\n", "err\n", 7, False)


@pytest.mark.parametrize("code", [0, 1, 2, 124, 126, 127, 137, 255])
def test_every_exit_code_is_the_programs_own(local, code):
    assert local.sh(f"exit {code}")["exit_code"] == code


@pytest.mark.parametrize("signal", ["KILL", "TERM", "SEGV", "HUP"])
def test_a_death_by_signal_is_named(local, signal):
    out = local.sh(f"kill -{signal} $$")
    assert out["exit_code"] == -1 and out["signal"] == f"SIG{signal}" and out["timedOut"] is False


def test_no_shell_is_involved(local):
    out = local.call("exec_raw", argv=["echo", "$(id)", "`id`", "*", ";", "rm", "$HOME", "a b"])
    assert out["stdout"] == "$(id) `id` * ; rm $HOME a b\n"


@pytest.mark.parametrize("argv", [["no-such-program"], ["/no/such"], ["./no-such"], ["/etc/passwd"], ["."], ["/"], ["-x"], ["a" * 5000]])
def test_a_program_that_cannot_be_run_is_a_clear_error(local, argv):
    with pytest.raises(Refused) as refused:
        local.call("exec_raw", argv=argv)
    assert refused.value.code and refused.value.code != "INTERNAL" and argv[0][:20] in refused.value.text, refused.value


def test_standard_input_arrives_whole_and_is_closed(local):
    text = "ü☃\n" * 100_000
    out = local.call("exec_raw", argv=["wc", "-c"], stdin=text)
    assert int(out["stdout"]) == len(text.encode())
    assert local.call("exec_raw", argv=["cat"])["stdout"] == ""
    assert local.call("exec_raw", argv=["cat"], stdin="")["stdout"] == ""


def test_a_program_that_does_not_read_its_input_still_ends(local, before):
    for script in ("exit 5", "exec 0<&-; exit 5", "head -c 1 >/dev/null; exit 5"):
        began = time.monotonic()
        assert local.sh(script, stdin="x" * 1_000_000)["exit_code"] == 5
        assert time.monotonic() - began < 5


def test_a_program_that_closes_its_streams_is_still_waited_for(local, before):
    began = time.monotonic()
    assert local.sh("exec >&- 2>&- <&-; sleep 0.7; exit 4")["exit_code"] == 4
    assert time.monotonic() - began >= 0.7


def test_output_that_is_not_utf8_is_not_lost(local):
    out = local.sh(r"printf 'a\377\376b'; printf '\200' >&2")
    assert base64.b64decode(out["stdoutBase64"]) == b"a\xff\xfeb" and base64.b64decode(out["stderrBase64"]) == b"\x80"
    assert out["stdout"].startswith("a") and out["stdout"].endswith("b")


def test_control_characters_and_nul_in_output_survive_as_data(local):
    out = local.sh(r"printf 'a\000b\033[31m\033]52;c;x\007\r\n'; printf '\342\200\256'")
    assert out["stdout"] == "a\0b\x1b[31m\x1b]52;c;x\x07\r\n\u202e"


def test_arguments_that_look_strange_arrive_as_they_are(local):
    odd = ["", " ", "--", "-n", "ü", "a\nb", "\x1b[0m", "\"'\\", "$x", "☃" * 1000]
    out = local.call("exec_raw", argv=["python3", "-c", "import sys,json; print(json.dumps(sys.argv[1:]))", *odd])
    assert __import__("json").loads(out["stdout"]) == odd


def test_argv_at_its_limits(local):
    assert local.call("exec_raw", argv=["echo", *["x"] * 1023])["stdout"].count("x") == 1023
    assert local.call("exec_raw", argv=["sh", "-c", "echo ${#1}", "sh", "y" * 60_000])["stdout"] == "60000\n"
    # More than that is an error that says so, not a lost connection and not an echo of it all.
    with pytest.raises(Refused) as refused:
        local.call("exec_raw", argv=["echo", "z" * 200_000])
    assert refused.value.code == "TOO_LARGE" and len(refused.value.text) < 500, refused.value.text[:300]
    assert local.rpc("ping").status == 200


# Bounded output.

def test_50_mib_of_output_are_cut_with_bounded_memory(local, before):
    began = time.monotonic()
    out = local.sh("head -c 52428800 /dev/zero | tr '\\0' x; echo end >&2; exit 3", timeout_seconds=60)
    assert out["exit_code"] == 3 and out["truncated"] is True and time.monotonic() - began < 30
    assert 0 < len(out["stdout"].encode()) <= CAP and "end" in out["stderr"] and "cut" in out["stderr"]
    for pid, command in local.processes("cuddy-").items():
        assert rss(pid) < 100 << 20, (command, rss(pid))


def test_50_mib_on_both_streams_without_an_end_of_line(local, before):
    out = local.sh("head -c 52428800 /dev/zero & head -c 52428800 /dev/zero >&2; wait", timeout_seconds=60)
    assert out["exit_code"] == 0 and out["truncated"] is True
    assert len(out["stdout"]) <= CAP and len(out["stderr"]) <= CAP + 200


def test_exactly_the_cap_is_not_truncated_and_one_byte_more_is(local):
    out = local.sh(f"head -c {CAP} /dev/zero | tr '\\0' x")
    assert len(out["stdout"]) == CAP and out["truncated"] is False
    out = local.sh(f"head -c {CAP + 1} /dev/zero | tr '\\0' x")
    assert len(out["stdout"]) == CAP and out["truncated"] is True


def test_the_cut_does_not_break_a_character(local):
    out = local.sh(f"printf x; yes '☃' | tr -d '\\n' | head -c {CAP * 2}")
    assert out["truncated"] is True and "\ufffd" not in out["stdout"] and out["stdout"].startswith("x☃☃")


# Where it runs.

@pytest.mark.parametrize("cwd", ["/", "/tmp", "/etc", "..", "../..", "a/../..", "/proc/self/root", "/proc/self/cwd", "~", "",
                                 "no-such", "file", "out-link", "chain-link", "loop-link", "a\0b", "x" * 5000, "dir/../../", "//",
                                 "dir/out-link", "/proc/1/root", "dangling-link", "file/", "dir\n"])
def test_a_working_directory_outside_is_refused_and_nothing_runs(local, cwd):
    home = local.workspace
    for link, to in (("out-link", "/"), ("chain-link", "out-link/tmp"), ("loop-link", "loop-link"), ("dangling-link", "/no/such")):
        if not (home / link).is_symlink():
            (home / link).symlink_to(to)
    (home / "dir").mkdir(exist_ok=True)
    (home / "file").touch()
    if not (home / "dir" / "out-link").is_symlink():
        (home / "dir" / "out-link").symlink_to("../../")
    if cwd == "":
        # Empty is either refused or the default; never elsewhere.
        try:
            assert local.call("exec_raw", argv=["pwd"], cwd="")["stdout"].strip() == str(home)
        except Refused as refused:
            assert "cwd" in refused.text
        return
    with pytest.raises(Refused) as refused:
        local.call("exec_raw", argv=["pwd"], cwd=cwd)
    assert refused.value.code and refused.value.code != "INTERNAL", refused.value
    assert refused.value.path == "$.cwd" or "cwd" in refused.value.text or cwd[:50] in refused.value.text, refused.value


def test_a_sibling_whose_name_begins_alike_is_outside(local):
    evil = Path(f"{local.workspace}-evil")
    evil.mkdir()
    for cwd in (str(evil), f"../{evil.name}", f"{local.workspace}/../{evil.name}"):
        with pytest.raises(Refused):
            local.call("exec_raw", argv=["pwd"], cwd=cwd)


@pytest.mark.parametrize("cwd", [".", "inner", "./inner", "inner/", "inner/deep/..", "link-inside", "ü ☃"])
def test_a_working_directory_inside_works(local, cwd):
    home = local.workspace
    (home / "inner" / "deep").mkdir(parents=True, exist_ok=True)
    (home / "ü ☃").mkdir(exist_ok=True)
    if not (home / "link-inside").is_symlink():
        (home / "link-inside").symlink_to("inner")
    out = local.call("exec_raw", argv=["/bin/pwd", "-P"], cwd=cwd)
    assert out["stdout"].strip() == os.path.realpath(home / cwd)
    out = local.call("exec_raw", argv=["/bin/pwd", "-P"], cwd=str(home / cwd))
    assert out["stdout"].strip() == os.path.realpath(home / cwd)


def test_the_default_directory_is_the_workspace_and_it_is_home(local):
    out = local.sh("pwd; echo $HOME")["stdout"].split()
    assert out[0] == str(local.workspace)
    # "it becomes the environment's home", says the help of `local up`.
    assert out[1] == str(local.workspace)


# Variables.

@pytest.mark.parametrize("name", ["PATH", "HOME", "SHELL", "IFS", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_X", "DYLD_INSERT_LIBRARIES",
                                  "ERUN_TENANT", "ERUN_JOB_ID", "ERUN_X", "", "A=B", "A\0B", "=", "PATH\0"])
def test_a_variable_that_would_change_the_rules_is_refused(local, name):
    for wait in (True, False):
        with pytest.raises(Refused) as refused:
            local.call("exec_raw", argv=["touch", "by-env"], env={name: "/tmp/x"}, wait=wait)
        assert refused.value.code == "INVALID_PARAMS" and refused.value.path.startswith("$.env"), refused.value
    assert not (local.workspace / "by-env").exists()


def test_a_value_with_nul_is_refused(local):
    with pytest.raises(Refused) as refused:
        local.call("exec_raw", argv=["true"], env={"A": "x\0y"})
    assert refused.value.path.startswith("$.env"), refused.value


def test_ordinary_variables_arrive_as_they_are(local):
    env = {"A": "", "B_1": "ü\n'\"$x", "lower": "y", "PATHS": "ok", "ALD_X": "ok"}
    out = local.call("exec_raw", argv=["python3", "-c", "import os,json; print(json.dumps(dict(os.environ)))"], env=env)
    got = __import__("json").loads(out["stdout"])
    assert {k: got.get(k) for k in env} == env
    assert got["ERUN_TENANT"] == "local" and got["ERUN_ENVIRONMENT"] == "dev"


def test_no_bearer_key_or_secret_path_is_in_a_commands_variables(local):
    text = local.sh("env; cat /proc/$PPID/environ | tr '\\0' '\\n'; tr '\\0' ' ' < /proc/$PPID/cmdline")["stdout"]
    assert "eyJ" not in text and "PRIVATE" not in text and "desktopid.key" not in text and "tls.key" not in text


def test_a_command_inherits_no_open_files(local):
    out = local.call("exec_raw", argv=["python3", "-c", "import os; print(sorted(int(f) for f in os.listdir('/proc/self/fd')))"])
    assert out["stdout"] == "[0, 1, 2, 3]\n"  # 3 is the listing itself


def test_a_command_has_ordinary_signals(local):
    out = local.call("exec_raw", argv=["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"])["stdout"]
    # 32 and 33 belong to the C library, which sets them so by itself when it spawns.
    assert {int(line.split()[1], 16) & ~0x180000000 for line in out.splitlines()} == {0}, out


# Time limits, forks and hiding.

def timed(place, script, limit=1, most=9):
    began = time.monotonic()
    out = place.sh(script, timeout_seconds=limit)
    took = time.monotonic() - began
    assert took < most, took
    return out


def test_the_time_limit_ends_the_command_and_says_so(local, before):
    out = timed(local, "echo early; sleep 60")
    assert out["timedOut"] is True and out["exit_code"] == -1 and out["stdout"] == "early\n"


def test_one_that_ignores_sigterm_is_killed(local, before):
    out = timed(local, "trap '' TERM HUP INT; echo on; while :; do sleep 1; done")
    assert out["timedOut"] is True and out["signal"] == "SIGKILL" and out["stdout"] == "on\n"


def test_one_that_cleans_up_on_sigterm_gets_the_chance(local, before):
    out = timed(local, "trap 'echo cleaned; exit 9' TERM; while :; do sleep 0.1; done")
    assert out["timedOut"] is True and "cleaned" in out["stdout"]


def test_one_that_stopped_itself_is_ended(local, before):
    assert timed(local, "kill -STOP $$")["timedOut"] is True


def test_a_child_in_the_background_does_not_hold_the_answer_up(local, before):
    out = timed(local, "sleep 60 & echo done; exit 6", limit=30, most=5)
    assert (out["exit_code"], out["stdout"], out["timedOut"]) == (6, "done\n", False)


DAEMON = """
import os, sys, time, ctypes
def fork():
    if os.fork(): os._exit(0)
if os.fork(): sys.exit(8)
os.setsid(); fork(); os.setsid() if os.getpid() != os.getsid(0) else None
ctypes.CDLL(None).prctl(15, b"kworker/0:1", 0, 0, 0)
for fd in range(3): os.close(fd)
os.chdir("/"); open("%s", "w").write(str(os.getpid()))
os.execve("/bin/sleep", ["[kworker/0:1]", "60"], {})
"""


def test_a_double_fork_with_setsid_and_a_new_name_does_not_get_away(local, before):
    note = local.workspace / "daemon.pid"
    script = DAEMON % note
    out = local.call("exec_raw", argv=["python3", "-c", script + "\n"], timeout_seconds=20)
    assert out["exit_code"] == 8
    # It may have been ended before it could write its id down.
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline and not (note.exists() and note.read_text()):
        time.sleep(0.05)
    if note.exists() and note.read_text():
        await_that("the daemon is dead", lambda: not alive(int(note.read_text())))


def test_a_daemon_that_lives_before_its_parent_exits_does_not_get_away(local, before):
    note = local.workspace / "daemon2.pid"
    script = DAEMON.replace("sys.exit(8)", "os.wait(), [time.sleep(.01) for _ in range(500) if not os.path.exists('%s.up')], sys.exit(8)")
    script = script.replace('str(os.getpid()))', 'str(os.getpid())); open("%s.up", "w").close()')
    out = local.call("exec_raw", argv=["python3", "-c", script % (note, note, note)], timeout_seconds=20)
    assert out["exit_code"] == 8
    daemon = int(note.read_text())
    await_that("the daemon is dead", lambda: not alive(daemon))


def test_a_fork_storm_is_ended_whole(local, before):
    out = timed(local, "i=0; while [ $i -lt 300 ]; do (setsid sleep 60 &) ; i=$((i+1)); done; echo spawned; sleep 60", limit=4, most=20)
    assert out["timedOut"] is True and out["stdout"] == "spawned\n"


def test_a_tree_that_forks_as_fast_as_it_is_killed_is_ended(local, before):
    script = ("import os,time,signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nend=time.time()+25\n"
              "while time.time()<end:\n p=os.fork()\n if p:\n  os._exit(0)\n os.setsid()\n time.sleep(0.002)\n")
    began = time.monotonic()
    out = local.call("exec_raw", argv=["python3", "-c", script], timeout_seconds=2)
    assert time.monotonic() - began < 12 and out["exit_code"] in (0, -1)
    await_that("the runner is dead", lambda: set(local.processes()) <= set(before), seconds=8)


def test_what_a_timed_out_tree_left_is_dead_wherever_it_hid(local, before):
    timed(local, "setsid sh -c 'trap \"\" TERM; sleep 61' & setsid setsid sleep 62 & (sleep 63 &) & sleep 64")
    for seconds in (61, 62, 63, 64):
        await_that(f"sleep {seconds} is dead", lambda s=seconds: not local.processes(f"sleep {s}"))


def test_zombies_do_not_pile_up(local, before):
    local.sh("for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 &) ; done; exit 0")

    def zombies():
        mine = set(local.processes())
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] == "Z" and int(fields[1]) in mine:
                found.append(stat.parent.name)
        return found

    await_that("no zombies", lambda: not zombies(), seconds=5)


def test_a_command_that_kills_its_parent_gets_a_clear_answer_and_the_next_call_works(fresh):
    try:
        out = fresh.sh("kill -9 $PPID; sleep 30", timeout_seconds=3)
        assert out["exit_code"] is not None
    except Refused as refused:
        assert refused.code and refused.text
    await_that("calls work again", lambda: works(fresh), seconds=15)
    await_that("the orphan is dead", lambda: not fresh.processes("sleep 30"), seconds=15)


def works(place):
    try:
        return place.sh("echo ok")["stdout"] == "ok\n"
    except (Refused, AssertionError, OSError):
        return False


# Cancel.

def test_a_cancelled_notification_kills_the_process(local, before):
    session, seen = local.initialize().session, {}

    def call():
        seen["reply"] = local.tool("exec_raw", {"argv": ["sh", "-c", "trap '' TERM; sleep 41.5; sleep 41.5"]}, id="c-1", session=session)

    thread = threading.Thread(target=call)
    thread.start()
    await_that("it runs", lambda: local.processes("sleep 41.5"))
    # Another id is another call.
    local.rpc("notifications/cancelled", {"requestId": "c-2"}, id=None, session=session)
    local.rpc("notifications/cancelled", {"requestId": 1}, id=None, session=session)
    assert local.processes("sleep 41.5")
    note = local.rpc("notifications/cancelled", {"requestId": "c-1", "reason": "no more"}, id=None, session=session)
    assert note.status in (202, 204)
    await_that("it is dead", lambda: not local.processes("sleep 41.5"), seconds=15)
    thread.join(10)
    assert not thread.is_alive()


def test_another_session_cannot_cancel_a_call_by_its_id(local, before):
    session, other = local.initialize().session, local.initialize().session
    thread = threading.Thread(target=lambda: local.tool("exec_raw", {"argv": ["sleep", "2.75"]}, id=1, session=session))
    thread.start()
    await_that("it runs", lambda: local.processes("sleep 2.75"))
    local.rpc("notifications/cancelled", {"requestId": 1}, id=None, session=other)
    local.rpc("notifications/cancelled", {"requestId": 1}, id=None)
    time.sleep(0.3)
    assert local.processes("sleep 2.75"), "a stranger's cancel reached the call"
    thread.join(10)


@pytest.mark.parametrize("streaming", [False, True])
def test_closing_the_connection_kills_the_process(local, before, streaming):
    import json
    import socket
    params = {"name": "exec_raw", "arguments": {"argv": ["sleep", "43.5"]}}
    if streaming:
        params["_meta"] = {"progressToken": 1}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    stream = socket.create_connection(("127.0.0.1", local.port), timeout=5)
    stream.sendall(local.head(f"Content-Length: {len(body)}") + body)
    await_that("it runs", lambda: local.processes("sleep 43.5"))
    stream.close()
    await_that("it is dead", lambda: not local.processes("sleep 43.5"))


def test_sessionless_strangers_with_the_same_id_do_not_cancel_each_other(local, before):
    thread = threading.Thread(target=lambda: local.tool("exec_raw", {"argv": ["sleep", "2.85"]}, id=5))
    thread.start()
    await_that("it runs", lambda: local.processes("sleep 2.85"))
    with pytest.raises(TimeoutError):
        local.tool("exec_raw", {"argv": ["sleep", "44.5"]}, id=5, timeout=1)
    await_that("the other is dead", lambda: not local.processes("sleep 44.5"))
    assert local.processes("sleep 2.85")
    thread.join(10)


@pytest.mark.parametrize("params", [None, {}, {"requestId": None}, {"requestId": []}, {"requestId": "no-such"}, [], "x"])
def test_a_broken_cancel_harms_nothing(local, params):
    assert local.rpc("notifications/cancelled", params, id=None).status in (200, 202, 204, 400)
    assert local.rpc("ping").status == 200
