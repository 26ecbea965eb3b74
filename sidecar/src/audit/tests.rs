use cuddy_commands::Effect;
use cuddy_edge::audit::Outcome;
use serde_json::json;

use super::*;

fn entry(call: &str, kid: Option<&str>) -> AuditEntry {
    AuditEntry {
        call_id: call.to_owned(),
        at: jiff::Timestamp::UNIX_EPOCH,
        issuer: "i".to_owned(),
        subject: "s".to_owned(),
        kid: kid.map(str::to_owned),
        session: None,
        door: "mcp",
        command: "exec_raw".to_owned(),
        effect: Some(Effect::Change),
        arguments_hash: "00".to_owned(),
        detail: None,
        duration_ms: None,
        outcome: Outcome::Begun,
    }
}

fn start(folder: &Path) -> AuditLog {
    AuditLog::start(folder, Arc::new(Disk::new(folder, 0)), false).unwrap()
}

fn calls(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("audit.log")).unwrap();
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["callId"].as_str().unwrap().to_owned();
    text.lines().map(id).collect()
}

#[tokio::test]
async fn a_change_is_on_the_disk_before_it_happens() {
    let folder = tempfile::tempdir().unwrap();
    let log = start(folder.path());
    log.begin(entry("1", Some("k"))).await.unwrap();
    assert_eq!(calls(folder.path()), ["1"]);
    log.end(entry("2", Some("k")));
    log.flush().await.unwrap();
    assert_eq!(calls(folder.path()), ["1", "2"]);
}

#[tokio::test]
async fn many_entries_keep_their_order_and_lose_none() {
    let folder = tempfile::tempdir().unwrap();
    let log = start(folder.path());
    let ids: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    futures::future::try_join_all(ids.iter().map(|id| log.begin(entry(id, Some("k"))))).await.unwrap();
    assert_eq!(calls(folder.path()), ids);
    assert_eq!(log.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn callers_without_a_bearer_cannot_fill_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let log = start(folder.path());
    for n in 0..50 {
        log.end(entry(&n.to_string(), None));
    }
    assert_eq!(log.begin(entry("x", None)).await.unwrap_err().error_code, ErrorCode::Busy);
    log.end(entry("y", None));
    assert_eq!(log.dropped(), 1);
    log.end(entry("proved", Some("k")));
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    log.begin(entry("later", None)).await.unwrap();
    assert_eq!(calls(folder.path()).len(), 52);
}

#[tokio::test]
async fn without_a_trail_nothing_runs() {
    // Writing to this device always finds it full.
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("audit.log")).unwrap();
    let disk = Arc::new(Disk::new(folder.path(), 0));
    let log = AuditLog::start(folder.path(), Arc::clone(&disk), false).unwrap();
    let error = log.begin(entry("1", Some("k"))).await.unwrap_err();
    assert_eq!(error.error_code, ErrorCode::DiskFull);
    assert!(disk.is_full());
    assert_eq!(log.dropped(), 1);
}

#[test]
fn an_exec_is_told_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let log = start(folder.path());
    let arguments = json!({ "argv": ["x", "--token", "hunter2"], "cwd": "git/r", "stdin": "hush" });
    let result = json!({ "stdout": "secret output", "exit_code": 3 });
    let detail = log.detail(&ExecRaw::DECLARATION, &arguments, Some(&result)).unwrap();
    assert_eq!(detail, json!({ "argv": ["x", "--token", "***"], "cwd": "git/r", "exitCode": 3 }));
    let version = &cuddy_commands::version::Version::DECLARATION;
    assert_eq!(log.detail(version, &json!({}), None), None);
}
