"""`cuddy local`: one environment per name, honest words about ports, folders and broken state, and the key it signs with."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from local_kit import Local, Refused, await_that


@pytest.fixture
def idle_home(tmp_path):
    """A home with a key and nothing that runs."""
    place = Local(tmp_path / "home")
    yield place
    place.end()


def test_the_key_is_one_that_other_programs_read(idle_home):
    """Keys are PKCS#8 and PKIX PEM: what OpenSSL, Go and Python write and read."""
    folder = idle_home.config / "erun" / "identity"
    private = serialization.load_pem_private_key((folder / "desktopid.key").read_bytes(), None)
    public = serialization.load_pem_public_key((folder / "desktopid.pub").read_bytes())
    assert private.public_key() == public


def test_a_key_that_another_program_made_works(tmp_path):
    place = Local(tmp_path / "home")
    shutil.rmtree(place.config / "erun")
    folder = place.config / "erun" / "identity"
    folder.mkdir(parents=True)
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "desktopid.key").write_bytes(pem)
    (folder / "desktopid.key").chmod(0o600)
    place.up()
    try:
        assert json.loads(place.cuddy("mcp", "call", "--tool", "version", "--output", "json").stdout)
        assert (folder / "desktopid.key").read_bytes() == pem
    finally:
        place.down()


def test_the_key_is_private_and_a_second_create_keeps_it(idle_home):
    key = idle_home.config / "erun" / "identity" / "desktopid.key"
    before = key.read_bytes()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    idle_home.cuddy("key", "create", check=False)
    assert key.read_bytes() == before


def test_secrets_of_a_running_environment_are_readable_by_their_owner_only(local):
    for path in (local.config / "erun").rglob("*"):
        if path.is_file() and (path.suffix == ".key" or path.name in ("audit.log", "anchor.json", "run.json", "dev.json")):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_the_endpoint_listens_on_this_machine_only(local):
    mine = set(local.processes("cuddy"))
    rows = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    for row in rows:
        if any(f"pid={pid}," in row for pid in mine):
            assert row.split()[3].startswith(("127.0.0.1:", "[::1]:")), row


def test_a_second_up_of_one_name_is_refused_and_the_first_lives_on(local):
    for folder in (local.workspace, local.folder):
        done = local.cuddy("local", "up", "--workspace", str(folder), "--name", "dev", "--detach", check=False)
        assert done.returncode != 0 and "dev" in done.stderr and str(local.port) in done.stderr, done.stderr
    assert local.call("version")["build"]


def test_of_many_ups_of_one_name_at_once_one_wins(idle_home):
    ups = [idle_home.start("local", "up", "--workspace", str(idle_home.workspace), "--name", "dev", "--port", "0", "--detach",
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(5)]
    ends = [(up.communicate(timeout=10), up.returncode) for up in ups]
    assert sum(code == 0 for _, code in ends) == 1, ends
    assert len(idle_home.processes("cuddy-sidecar serve")) == 1
    idle_home.port = json.loads(idle_home.state_file.read_text())["localPort"]
    assert idle_home.call("version")["build"]
    idle_home.down()
    await_that("all is gone", lambda: not idle_home.processes(), seconds=10)


def test_a_port_of_a_foreign_process_is_refused_by_the_holders_name(idle_home):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        done = idle_home.cuddy("local", "up", "--workspace", str(idle_home.workspace), "--port", str(port), "--detach", check=False)
    assert done.returncode != 0 and str(port) in done.stderr and str(os.getpid()) in done.stderr, done.stderr
    assert not idle_home.state_file.exists()
    await_that("nothing is left", lambda: not idle_home.processes(), seconds=5)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", "-x", "x-", "a b", "ü", "x" * 64, ".", "a\nb"])
def test_a_bad_name_is_refused_and_makes_nothing(idle_home, name):
    before = sorted(idle_home.config.rglob("*"))
    done = idle_home.cuddy("local", "up", "--workspace", str(idle_home.workspace), f"--name={name}", "--detach", check=False)
    assert done.returncode == 2 and "name" in done.stderr.lower()
    assert sorted(idle_home.config.rglob("*")) == before


@pytest.mark.parametrize("folder", ["no-such", "file", ""])
def test_a_workspace_that_is_no_folder_is_refused(idle_home, folder):
    (idle_home.folder / "file").touch()
    target = str(idle_home.folder / folder) if folder else ""
    done = idle_home.cuddy("local", "up", "--workspace", target, "--port", "0", "--detach", check=False)
    assert done.returncode == 2 and "error:" in done.stderr


@pytest.mark.parametrize("content", [b"", b"{", b'{"pid":1}'])
def test_a_damaged_run_file_neither_hides_nor_doubles_what_runs(fresh, content):
    run = fresh.config / "erun" / "local" / "dev" / "run.json"
    run.write_bytes(content)
    for args in (("status",), ("down", "--name", "dev")):
        done = fresh.cuddy("local", *args, check=False, timeout=20)
        assert "panicked" not in done.stderr and done.returncode in (0, 1, 2, 3, 4), done.stderr
    # What cannot be ended may not be left unmentioned; a new start must work or say what to do.
    done = fresh.cuddy("local", "up", "--workspace", str(fresh.workspace), "--name", "dev", "--port", "0", "--detach", check=False)
    assert done.returncode == 0 or "error:" in done.stderr, done.stderr
    running = fresh.processes("cuddy-sidecar serve")
    assert len(running) <= 1, running


def test_down_twice_and_down_of_nothing_are_no_crash(idle_home):
    for _ in range(2):
        done = idle_home.cuddy("local", "down", "--name", "dev", check=False)
        assert "panicked" not in done.stderr and done.returncode in (0, 1, 2, 3, 4)


def test_down_takes_the_state_file_away_and_keeps_the_workspace(fresh):
    fresh.sh("echo kept > file")
    fresh.down()
    assert not fresh.state_file.exists() and (fresh.workspace / "file").read_text() == "kept\n"
    done = fresh.cuddy("mcp", "call", "--tenant", "local", "--environment", "dev", "--tool", "version", check=False)
    assert done.returncode in (2, 4) and "hint" in done.stderr
    fresh.up()
    assert fresh.sh("cat file")["stdout"] == "kept\n"


def test_the_state_file_has_what_the_seed_names(local):
    state = json.loads(local.state_file.read_text())
    assert {"tenant", "environment", "localPort", "namespace", "kubernetesContext", "logPath", "processId"} <= set(state)
    assert state["tenant"] == "local" and state["environment"] == "dev"
    assert os.path.exists(f"/proc/{state['processId']}")


def test_a_dead_sidecar_is_told_or_mended_and_never_denied(fresh):
    """After a crash a person asks `local status`: "there is no local environment" is not what happened."""
    [sidecar] = fresh.processes("cuddy-sidecar serve")
    os.kill(sidecar, signal.SIGKILL)

    def settled():
        mended = [pid for pid in fresh.processes("cuddy-sidecar serve") if pid != sidecar]
        return mended or not fresh.processes("cuddy")

    await_that("it is mended or over", settled, seconds=10)
    done = fresh.cuddy("local", "status", check=False)
    assert "dev" in done.stdout + done.stderr, done


def test_a_foreground_up_ends_with_its_terminal(idle_home):
    up = idle_home.start("local", "up", "--workspace", str(idle_home.workspace), "--port", "0",
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    await_that("it is up", idle_home.state_file.exists, seconds=10)
    up.terminate()
    up.wait(10)
    await_that("all is gone", lambda: not idle_home.processes(), seconds=10)


def test_an_ordinary_user_can_do_it_all():
    """No root is needed: as root the test becomes nobody, otherwise it is a user already."""
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        base.chmod(0o755)
        for part in ("bin", "config", "workspace"):
            (base / part).mkdir()
        for program in ("cuddy", "cuddy-sidecar", "cuddy-host"):
            shutil.copy(Path(os.environ["CUDDY_BIN"]) / program, base / "bin" / program)
        if nobody:
            for part in ("config", "workspace"):
                os.chown(base / part, 65534, 65534)
        env = {"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": str(base / "config"), "HOME": str(base / "workspace")}

        def cuddy(*args, check=True):
            return subprocess.run([base / "bin" / "cuddy", *args], env=env, capture_output=True, text=True, timeout=30, check=check,
                                  cwd=folder, **nobody)

        try:
            cuddy("key", "create")
            cuddy("local", "up", "--workspace", str(base / "workspace"), "--port", "0", "--detach")
            script = "id -u; (setsid sleep 95 &); echo ok > file; cat file"
            out = cuddy("mcp", "call", "--tool", "exec_raw", "--args", json.dumps({"argv": ["sh", "-c", script]}), "--output", "json")
            lines = json.loads(out.stdout)["structured"]["stdout"].split()
            assert lines[1] == "ok" and lines[0] == str(65534 if nobody else os.geteuid())
            started = cuddy("mcp", "call", "--tool", "exec_raw", "--args",
                            json.dumps({"argv": ["sh", "-c", "sleep 0.2; exit 3"], "wait": False, "name": "j"}), "--output", "json")
            assert json.loads(started.stdout)["structured"]["jobId"] == "j"
            done = cuddy("mcp", "call", "--tool", "exec_job_await", "--arg", "id=j", "--output", "json", check=False)
            assert json.loads(done.stdout)["structured"]["job"]["exitCode"] == 3
        finally:
            cuddy("local", "down", "--name", "dev", check=False)


def test_the_cli_says_in_its_exit_code_what_happened(local):
    def code(*args):
        return local.cuddy("mcp", *args[:1], "--tenant", "local", "--environment", "dev", *args[1:], check=False).returncode

    assert code("call", "--tool", "version") == 0
    assert code("call", "--tool", "nope") in (1, 2, 3)
    assert code("call", "--tool", "exec_raw", "--args", '{"argv":[]}') in (1, 2, 3)
    assert code("call", "--tool", "version", "--args", "{bad") == 2
    assert code("call", "--tool", "version", "--args", "[]") == 2
    job = local.job("sleep 5")
    assert code("call", "--tool", "exec_job_await", "--arg", f"id={job}", "--arg", "timeoutSeconds=1") == 124
    local.call("exec_job_cancel", id=job, signal="KILL")


def test_another_persons_key_is_refused_by_the_environment(local, tmp_path):
    stranger = Local(tmp_path / "stranger")
    stranger.port = local.port
    assert stranger.rpc("ping").status == 401
    with pytest.raises((AssertionError, Refused)):
        stranger.call("exec_raw", argv=["touch", "by-stranger"])
    assert not (local.workspace / "by-stranger").exists()
