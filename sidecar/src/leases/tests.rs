use std::collections::HashMap;

use cuddy_commands::activity::lease_take::ActivityLeaseTakeParams;
use cuddy_edge::caller::{Caller, Door};
use cuddy_protocol::{Capabilities, Capability};
use parking_lot::Mutex as SyncMutex;

use super::*;
use crate::clock::Clock;
use crate::idle::{IdleAction, Policy};

#[derive(Default)]
struct Table(SyncMutex<HashMap<i32, String>>);

impl Processes for Table {
    fn identity(&self, pid: i32) -> BoxFuture<'_, Result<Option<String>, CommandError>> {
        let found = self.0.lock().get(&pid).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }
}

struct Setup {
    folder: tempfile::TempDir,
    activity: Arc<Activity>,
    table: Arc<Table>,
    leases: Arc<Leases>,
}

fn setup() -> Setup {
    setup_in(tempfile::tempdir().unwrap())
}

fn setup_in(folder: tempfile::TempDir) -> Setup {
    let policy = Policy {
        timeout: Duration::from_mins(15),
        grace: Duration::from_mins(1),
        max_busy: Duration::from_hours(24),
        action: IdleAction::Stop,
    };
    let activity = Activity::new(Clock::start(), policy);
    let table = Arc::new(Table::default());
    let leases = Leases::load(folder.path(), Arc::clone(&activity), Arc::clone(&table) as _);
    Setup { folder, activity, table, leases: Arc::new(leases) }
}

fn caller(subject: &str) -> Caller {
    Caller {
        issuer: "https://issuer".to_owned(),
        subject: subject.to_owned(),
        kid: Some(format!("kid-{subject}")),
        capabilities: Capabilities::up_to(Capability::Admin),
        issued_at: Moment::wall().as_millis() / 1000,
        door: Door::Mcp,
        session: None,
    }
}

fn agent() -> Caller {
    Caller {
        kid: None,
        capabilities: Capabilities::up_to(Capability::Operate),
        door: Door::Agent,
        ..caller("agent")
    }
}

fn named(name: &str) -> ActivityLeaseTakeParams {
    ActivityLeaseTakeParams { name: name.to_owned(), ..Default::default() }
}

fn exclusive(name: &str) -> ActivityLeaseTakeParams {
    ActivityLeaseTakeParams { exclusive: Some(true), ..named(name) }
}

async fn take(s: &Setup, who: &Caller, params: ActivityLeaseTakeParams) -> Result<Lease, CommandError> {
    let (mut take, pid) = params::parse(params, who)?;
    if let Some(pid) = pid {
        take.process = s.table.identity(pid).await?.map(|identity| (pid, identity));
    }
    s.leases.take(take).await.map(|(lease, _)| lease)
}

fn seconds(from: &str, to: &str) -> i64 {
    let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_second();
    at(to) - at(from)
}

#[tokio::test]
async fn defaults_are_the_seeds() {
    let s = setup();
    let lease = take(&s, &caller("a"), named("My Build!")).await.unwrap();
    assert_eq!((lease.id.as_str(), lease.name.as_str()), ("my-build", "My Build!"));
    assert_eq!(lease.holder, "https://issuer#a");
    assert_eq!(seconds(&lease.started_at, &lease.expires_at), 900);
    assert!(!lease.exclusive && lease.scope.is_none() && lease.renewed_at.is_none());
    let claim = take(&s, &caller("a"), exclusive("claim")).await.unwrap();
    assert_eq!(seconds(&claim.started_at, &claim.expires_at), 300);
    assert_eq!(claim.scope.as_deref(), Some("worktree"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_racing_claims_have_one_winner() {
    let s = Arc::new(setup());
    // An expired claim is there to be fought over, as in the failure the seed had.
    take(&s, &caller("old"), exclusive("old")).await.unwrap();
    {
        let mut state = s.leases.state.lock().await;
        let past = s.activity.clock().now();
        let mut book = serde_json::to_value(&state.book).unwrap();
        book["old"]["expires"] = serde_json::json!(past.as_millis());
        state.book = serde_json::from_value(book).unwrap();
    }
    let claims = (0..1000).map(|n| {
        let s = Arc::clone(&s);
        tokio::spawn(
            async move { take(&s, &caller(&format!("s{n}")), exclusive(&format!("claim-{n}"))).await },
        )
    });
    let results: Vec<_> = futures::future::join_all(claims).await.into_iter().map(Result::unwrap).collect();
    let winners: Vec<&Lease> = results.iter().filter_map(|r| r.as_ref().ok()).collect();
    assert_eq!(winners.len(), 1);
    for refusal in results.iter().filter_map(|r| r.as_ref().err()) {
        assert_eq!(refusal.error_code, ErrorCode::Conflict);
        assert!(refusal.message.contains(&winners[0].holder), "{refusal:?}");
    }
    let again = Leases::load(s.folder.path(), Arc::clone(&s.activity), Arc::clone(&s.table) as _);
    assert_eq!(again.list().await, vec![winners[0].clone()]);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_its_holders_and_ends_at_the_ceiling() {
    let s = setup();
    let mine = caller("a");
    let first = take(&s, &mine, named("long")).await.unwrap();
    let refusal = take(&s, &caller("b"), named("long")).await.unwrap_err();
    assert_eq!(refusal.error_code, ErrorCode::Conflict);
    assert!(refusal.message.contains("https://issuer#a"), "{}", refusal.message);
    let hour = || ActivityLeaseTakeParams { ttl_seconds: Some(3600), ..named("long") };
    let mut last = take(&s, &mine, hour()).await.unwrap();
    for _ in 0..23 {
        tokio::time::advance(Duration::from_mins(30)).await;
        last = take(&s, &mine, hour()).await.unwrap();
    }
    assert_eq!(last.started_at, first.started_at);
    assert_eq!(seconds(&first.started_at, &last.expires_at), 12 * 3600);
    tokio::time::advance(Duration::from_mins(30)).await;
    assert!(s.leases.list().await.is_empty());
}

#[tokio::test]
async fn long_leases_want_an_admin_who_is_there() {
    let s = setup();
    let long = || ActivityLeaseTakeParams { ttl_seconds: Some(3601), ..named("long") };
    assert!(take(&s, &caller("a"), long()).await.is_ok());
    let operator = Caller { capabilities: Capabilities::up_to(Capability::Attach), ..caller("b") };
    let stale = Caller { issued_at: caller("c").issued_at - 62, ..caller("c") };
    for who in [operator, stale, Caller { capabilities: Capabilities::up_to(Capability::Admin), ..agent() }] {
        let refusal = take(&s, &who, long()).await.unwrap_err();
        assert_eq!(refusal.error_code, ErrorCode::Forbidden, "{refusal:?}");
    }
    for ttl in [0, 43_201] {
        let params = ActivityLeaseTakeParams { ttl_seconds: Some(ttl), ..named("x") };
        assert_eq!(take(&s, &caller("a"), params).await.unwrap_err().error_code, ErrorCode::InvalidParams);
    }
}

#[tokio::test]
async fn a_dead_holder_gives_back_and_a_namesake_does_not_hold() {
    let s = setup();
    s.table.0.lock().insert(42, "42:100:boot".to_owned());
    let params = ActivityLeaseTakeParams { pid: Some(42), ..exclusive("a") };
    take(&s, &caller("a"), params).await.unwrap();
    assert_eq!(s.leases.list().await.len(), 1);
    // Another process has the number by now.
    s.table.0.lock().insert(42, "42:900:boot".to_owned());
    take(&s, &caller("b"), exclusive("b")).await.unwrap();
    let held: Vec<_> = s.leases.list().await.into_iter().map(|l| l.id).collect();
    assert_eq!(held, ["b"]);
}

#[tokio::test]
async fn giving_back_is_idempotent_and_the_holders_alone() {
    let s = setup();
    take(&s, &caller("a"), named("Build")).await.unwrap();
    let id = params::lease_id("$.id", "BUILD").unwrap();
    let refusal = s.leases.release(&id, &caller("b").owner()).await.unwrap_err();
    assert_eq!(refusal.error_code, ErrorCode::Forbidden);
    assert!(s.leases.release(&id, &caller("a").owner()).await.unwrap().is_empty());
    assert!(s.leases.release(&id, &caller("a").owner()).await.unwrap().is_empty());
}

#[tokio::test]
async fn there_is_an_end_to_leases() {
    let s = setup();
    for n in 0..book::MAX_UNPROVED {
        take(&s, &agent(), named(&format!("a{n}"))).await.unwrap();
    }
    assert_eq!(take(&s, &agent(), named("more")).await.unwrap_err().error_code, ErrorCode::Busy);
    for n in 0..book::MAX_LEASES - book::MAX_UNPROVED {
        take(&s, &caller("a"), named(&format!("b{n}"))).await.unwrap();
    }
    assert_eq!(take(&s, &caller("a"), named("more")).await.unwrap_err().error_code, ErrorCode::Busy);
    assert!(take(&s, &caller("a"), named("b1")).await.is_ok(), "a renewal needs no room");
}

#[tokio::test]
async fn names_are_bounded_and_job_ids_are_not_to_be_had() {
    let s = setup();
    for bad in ["", "a\nb", "\u{1b}[2J", "日本", &"x".repeat(101), "job-suite", "Job suite"] {
        let refusal = take(&s, &caller("a"), named(bad)).await.unwrap_err();
        assert_eq!(refusal.error_code, ErrorCode::InvalidParams, "{bad:?}");
    }
    let scope = ActivityLeaseTakeParams { scope: Some("db".to_owned()), ..named("x") };
    assert_eq!(take(&s, &caller("a"), scope).await.unwrap_err().details["path"], "$.scope");
}

#[tokio::test]
async fn running_jobs_are_leases() {
    let s = setup();
    let job = RunningJob {
        id: "suite".to_owned(),
        name: "suite".to_owned(),
        started_at: "2026-05-25T14:31:02Z".to_owned(),
        pid: 7,
    };
    s.activity.host_seen(cuddy_protocol::host::HostActivity { jobs: vec![job], terminal_idle_seconds: None });
    let held = s.leases.list().await;
    assert_eq!((held[0].id.as_str(), held[0].pid), ("job-suite", Some(7)));
    assert_eq!(s.leases.release("job-suite", "anybody").await.unwrap_err().error_code, ErrorCode::Forbidden);
}

#[tokio::test]
async fn removed_keys_lose_their_leases() {
    let s = setup();
    take(&s, &caller("a"), named("a")).await.unwrap();
    take(&s, &caller("b"), named("b")).await.unwrap();
    take(&s, &agent(), named("own")).await.unwrap();
    s.leases.revoke(|issuer, kid| issuer == "https://issuer" && kid == "kid-b").await;
    let held: Vec<_> = s.leases.list().await.into_iter().map(|l| l.id).collect();
    assert_eq!(held, ["b", "own"]);
}

#[tokio::test(start_paused = true)]
async fn damaged_leases_are_no_empty_ones() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), "{\"version\":1,").unwrap();
    let s = setup_in(folder);
    let refusal = take(&s, &caller("a"), named("a")).await.unwrap_err();
    assert_eq!(refusal.error_code, ErrorCode::PreconditionFailed);
    assert!(refusal.message.contains("leases.json is damaged"), "{}", refusal.message);
    assert!(!s.leases.is_sound().await);
    s.activity.open();
    assert_eq!(s.activity.verdict().1.blockers, ["lease leases that cannot be read"]);
    // No lease lasts longer than this, so nothing in the file can be in force any more.
    tokio::time::advance(Duration::from_secs(CEILING_SECONDS + 1)).await;
    take(&s, &caller("a"), named("a")).await.unwrap();
    let kept = std::fs::read_dir(s.folder.path())
        .unwrap()
        .filter(|f| f.as_ref().unwrap().file_name().to_string_lossy().starts_with("leases.json.damaged-"));
    assert_eq!(kept.count(), 1);
}

#[tokio::test]
async fn later_versions_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = "{\"version\":2,\"content\":{}}";
    std::fs::write(folder.path().join(FILE), text).unwrap();
    let s = setup_in(folder);
    assert!(take(&s, &caller("a"), named("a")).await.unwrap_err().message.contains("version 2"));
    assert_eq!(std::fs::read_to_string(s.folder.path().join(FILE)).unwrap(), text);
}

#[tokio::test]
async fn what_cannot_be_written_has_not_happened() {
    let s = setup();
    take(&s, &caller("a"), named("a")).await.unwrap();
    std::fs::remove_dir_all(s.folder.path()).unwrap();
    let refusal = take(&s, &caller("a"), named("b")).await.unwrap_err();
    assert_eq!(refusal.error_code, ErrorCode::Internal);
    let held: Vec<_> = s.leases.list().await.into_iter().map(|l| l.id).collect();
    assert_eq!(held, ["a"]);
}
