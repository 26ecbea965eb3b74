//! Against hosts that misbehave.

use std::future::Future;
use std::path::Path;

use cuddy_protocol::host::{MAX_HEADER, decode_header, header_len};
use serde_json::json;
use tokio::net::{UnixListener, UnixStream};

use super::*;

/// Plays one connection of a host: reads the header, then does as told.
fn host<F, R>(folder: &Path, play: F) -> tokio::task::JoinHandle<Header>
where
    F: FnOnce(UnixStream) -> R + Send + 'static,
    R: Future<Output = ()> + Send,
{
    let listener = UnixListener::bind(folder.join("host.sock")).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix).await.unwrap();
        let mut json = vec![0; header_len(prefix).unwrap()];
        stream.read_exact(&mut json).await.unwrap();
        play(stream).await;
        decode_header(&json).unwrap()
    })
}

fn ask(command: &str) -> Ask<'_> {
    Ask {
        command,
        params: json!({ "argv": ["true"] }),
        stdin: Vec::new(),
        deadline: Duration::from_secs(5),
        call: "c1",
        progress: Progress::none(),
        cancel: CancellationToken::new(),
        max_result: MAX_RESULT,
    }
}

fn frames(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !payload.is_empty() {
        encode_frames(kind, payload, &mut bytes);
    }
    encode_frames(kind, &[], &mut bytes);
    bytes
}

async fn answer_to(bytes: Vec<u8>) -> Result<Vec<u8>, HostError> {
    let folder = tempfile::tempdir().unwrap();
    let _host = host(folder.path(), async move |mut stream| {
        let _ = stream.write_all(&bytes).await;
    });
    HostClient::new(folder.path().to_owned()).ask(ask("exec_raw")).await
}

#[tokio::test]
async fn a_result_comes_in_frames() {
    let json = format!("{{\"stdout\":\"{}\"}}", "x".repeat(700_000)).into_bytes();
    assert_eq!(answer_to(frames(FrameKind::Result, &json)).await.unwrap(), json);
}

#[tokio::test]
async fn an_error_is_the_hosts() {
    let error = CommandError::new(ErrorCode::NotFound, "no such job");
    let frames = frames(FrameKind::Error, &serde_json::to_vec(&error).unwrap());
    let Err(HostError::Refused(got)) = answer_to(frames).await else { panic!("not refused") };
    assert_eq!(got, error);
}

#[tokio::test]
async fn more_than_the_bound_is_not_taken() {
    let bytes = frames(FrameKind::Result, &vec![b' '; MAX_RESULT + 1]);
    assert!(matches!(answer_to(bytes).await, Err(HostError::TooLarge { max: MAX_RESULT })));
    let bytes = frames(FrameKind::Error, &vec![b' '; reply::MAX_ERROR + 1]);
    assert!(matches!(answer_to(bytes).await, Err(HostError::TooLarge { max: reply::MAX_ERROR })));
}

#[tokio::test]
async fn other_bytes_are_refused() {
    assert!(matches!(answer_to(b"HTTP/1.1 200 OK".to_vec()).await, Err(HostError::Frame(_))));
    assert!(matches!(answer_to(vec![5, 255, 255, 255, 255]).await, Err(HostError::Frame(_))));
    let mut mixed = Vec::new();
    encode_frames(FrameKind::Result, b"{}", &mut mixed);
    encode_frames(FrameKind::Error, b"{}", &mut mixed);
    assert!(answer_to(mixed).await.is_err());
}

#[tokio::test]
async fn a_host_that_ends_leaves_a_change_unknown_and_a_read_to_be_tried_again() {
    let mut cut = Vec::new();
    encode_frames(FrameKind::Result, b"{\"stdout", &mut cut);
    let error = answer_to(cut.clone()).await.unwrap_err().into_command_error(true);
    assert_eq!((error.error_code, error.retryable), (ErrorCode::OutcomeUnknown, false));
    let error = answer_to(cut).await.unwrap_err().into_command_error(false);
    assert_eq!((error.error_code, error.retryable), (ErrorCode::Unavailable, true));
}

#[tokio::test]
async fn a_host_that_is_not_there_has_run_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let error = HostClient::new(folder.path().to_owned()).ask(ask("exec_raw")).await.unwrap_err();
    let error = error.into_command_error(true);
    assert_eq!((error.error_code, error.retryable), (ErrorCode::Unavailable, true));
}

#[tokio::test(start_paused = true)]
async fn a_silent_host_meets_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let _host = host(folder.path(), async |stream| {
        std::future::pending::<()>().await;
        drop(stream);
    });
    let error = HostClient::new(folder.path().to_owned()).ask(ask("exec_raw")).await.unwrap_err();
    assert!(matches!(error, HostError::Deadline(_)), "{error:?}");
    assert_eq!(error.into_command_error(false).error_code, ErrorCode::Deadline);
    let error = HostError::Deadline(Duration::from_secs(5)).into_command_error(true);
    assert_eq!((error.error_code, error.retryable), (ErrorCode::OutcomeUnknown, false), "it may have run");
}

#[tokio::test]
async fn a_cancel_closes_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let host = host(folder.path(), async move |mut stream| {
        begun.send(()).unwrap();
        // Everything that was sent, and then the end: the host's sign to stop the work.
        stream.read_to_end(&mut Vec::new()).await.unwrap();
    });
    let cancel = CancellationToken::new();
    let client = HostClient::new(folder.path().to_owned());
    let asking = client.ask(Ask { cancel: cancel.clone(), ..ask("exec_raw") });
    let cancelling = async {
        begins.await.unwrap();
        cancel.cancel();
    };
    let (answer, ()) = tokio::join!(asking, cancelling);
    assert!(matches!(answer, Err(HostError::Cancelled)));
    host.await.unwrap();
}

#[tokio::test]
async fn the_request_carries_build_and_stdin() {
    let folder = tempfile::tempdir().unwrap();
    let stdin = vec![b'i'; 150_000];
    let expected = stdin.clone();
    let host = host(folder.path(), async move |mut stream| {
        let mut got = Vec::new();
        loop {
            let mut prefix = [0; FRAME_PREFIX];
            stream.read_exact(&mut prefix).await.unwrap();
            let (kind, len) = decode_frame_prefix(prefix).unwrap();
            assert_eq!(kind, FrameKind::Stdin);
            if len == 0 {
                break;
            }
            let start = got.len();
            got.resize(start + len, 0);
            stream.read_exact(&mut got[start..]).await.unwrap();
        }
        assert_eq!(got, expected);
        stream.write_all(&frames(FrameKind::Result, b"{}")).await.unwrap();
    });
    let client = HostClient::new(folder.path().to_owned());
    assert_eq!(client.ask(Ask { stdin, ..ask("exec_raw") }).await.unwrap(), b"{}");
    let header = host.await.unwrap();
    assert_eq!(
        (header.build, header.command.as_str(), header.deadline_ms),
        (build_info::build(), "exec_raw", 5000)
    );
}

#[tokio::test]
async fn arguments_over_the_header_are_too_large() {
    let folder = tempfile::tempdir().unwrap();
    let client = HostClient::new(folder.path().to_owned());
    let params = json!({ "argv": ["x".repeat(MAX_HEADER)] });
    let error = client.ask(Ask { params, ..ask("exec_raw") }).await.unwrap_err().into_command_error(true);
    assert_eq!(error.error_code, ErrorCode::TooLarge);
}

#[tokio::test]
async fn progress_is_handed_on_and_nonsense_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let _host = host(folder.path(), async |mut stream| {
        let mut bytes = Vec::new();
        encode_frames(FrameKind::Progress, b"nonsense", &mut bytes);
        encode_frames(FrameKind::Progress, br#"{"progress":1,"message":"a\u001bb"}"#, &mut bytes);
        bytes.extend(frames(FrameKind::Result, b"{}"));
        stream.write_all(&bytes).await.unwrap();
    });
    let (sender, mut steps) = tokio::sync::mpsc::channel(4);
    let client = HostClient::new(folder.path().to_owned());
    client.ask(Ask { progress: Progress::to(sender), ..ask("exec_raw") }).await.unwrap();
    let step = steps.recv().await.unwrap();
    assert_eq!((step.progress, step.message.as_deref()), (1.0, Some("a?b")));
    assert!(steps.recv().await.is_none());
}
