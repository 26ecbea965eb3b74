//! Real sockets: TLS, slow senders, too many of them, and leaving in the middle.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cuddy_edge::client::{self, ConnectError, Connection};
use cuddy_edge::server::{ConnectionLimits, TlsError, serve_plain, serve_tls, server_config};
use cuddy_protocol::places::server_name;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::ask::{Doors, call, doors};
use crate::support::commands::{one, soon};
use crate::support::tokens::{UID, key, token_of};

/// A bound for what should happen at once, generous since the machine may be busy.
const SOON: Duration = Duration::from_secs(20);

struct Server {
    doors: Doors,
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
    ca: Vec<u8>,
}

/// A CA and a certificate of its for a name: both as PEM, with the certificate's key.
fn certificate(name: &str) -> (String, String, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    (ca.pem(), leaf.pem(), key.serialize_pem())
}

async fn serve(limits: ConnectionLimits, tls: bool) -> Server {
    let doors = doors();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let (ca, cert, key) = certificate(&server_name(UID));
    let router = doors.router.clone();
    let stop = shutdown.clone();
    let task = if tls {
        let config = server_config(cert.as_bytes(), key.as_bytes()).unwrap();
        tokio::spawn(serve_tls(listener, config, router, limits, stop))
    } else {
        tokio::spawn(serve_plain(listener, router, limits, stop))
    };
    Server { doors, address, shutdown, task, ca: ca.into_bytes() }
}

impl Server {
    async fn stream(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn connect(&self) -> Connection {
        let config = client::tls_config(&self.ca).unwrap();
        client::connect(self.stream().await, config, &server_name(UID)).await.unwrap()
    }
}

fn request(message: &Value) -> Request<Full<Bytes>> {
    Request::post("/mcp")
        .header("host", server_name(UID))
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {}", token_of("me", &key(1))))
        .body(Full::from(message.to_string()))
        .unwrap()
}

/// One request as it goes over the wire.
fn wire(message: &Value) -> String {
    let body = message.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}",
        token_of("me", &key(1)),
        body.len()
    )
}

fn echo() -> Value {
    call(1, "echo", json!({ "text": "hi" }))
}

/// Reads until the other end closes, within a bound.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut bytes)).await.expect("still open");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads one answer with a body of known length.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut piece = [0_u8; 4096];
    let whole = |text: &str| {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|l| l.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
        (body.len() >= length).then_some(())
    };
    while whole(&text).is_none() {
        let count = tokio::time::timeout(SOON, stream.read(&mut piece)).await.unwrap().unwrap();
        assert!(count > 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
    text
}

#[tokio::test]
async fn calls_go_over_tls_and_a_connection_serves_many() {
    let server = serve(ConnectionLimits::default(), true).await;
    let mut connection = server.connect().await;
    for _ in 0..3 {
        let answer = connection.send_request(request(&echo())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["result"]["structuredContent"]["text"], "hi");
    }
}

#[tokio::test]
async fn tls_is_1_3_and_proves_the_name() {
    let server = serve(ConnectionLimits::default(), true).await;
    let config = client::tls_config(&server.ca).unwrap();
    let other = client::connect(server.stream().await, Arc::clone(&config), &server_name("another")).await;
    assert!(matches!(other.err(), Some(ConnectError::Tls { .. })));
    let foreign = client::tls_config(certificate("x").0.as_bytes()).unwrap();
    let other = client::connect(server.stream().await, foreign, &server_name(UID)).await;
    assert!(matches!(other.err(), Some(ConnectError::Tls { .. })));
    // A client that speaks nothing above 1.2.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    let ca = <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(
        &server.ca,
    );
    roots.add(ca.unwrap()).unwrap();
    let old = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let other = client::connect(server.stream().await, Arc::new(old), &server_name(UID)).await;
    assert!(matches!(other.err(), Some(ConnectError::Tls { .. })));
    // Plain words on the TLS port are no way in.
    let mut plain = server.stream().await;
    plain.write_all(wire(&echo()).as_bytes()).await.unwrap();
    assert!(!rest(&mut plain).await.contains("HTTP/1.1 200"));
}

#[test]
fn a_certificate_that_is_none_is_refused_without_its_key() {
    let (_, cert, key) = certificate("x");
    assert!(matches!(server_config(b"", key.as_bytes()), Err(TlsError::Certificate)));
    assert!(matches!(server_config(b"hello", key.as_bytes()), Err(TlsError::Certificate)));
    assert!(matches!(server_config(cert.as_bytes(), b"SECRET"), Err(TlsError::Key)));
    let (_, _, another) = certificate("x");
    assert!(matches!(server_config(cert.as_bytes(), another.as_bytes()), Err(TlsError::Config(_))));
}

#[tokio::test]
async fn who_sends_slowly_is_cut_off() {
    let short = ConnectionLimits { header: Duration::from_millis(300), ..ConnectionLimits::default() };
    let (plain, tls) = (serve(short, false).await, serve(short, true).await);
    let started = Instant::now();
    for server in [&plain, &tls] {
        let mut silent = server.stream().await;
        assert_eq!(rest(&mut silent).await, "");
    }
    let mut dripping = plain.stream().await;
    let dripped = async {
        for byte in wire(&echo()).bytes() {
            if dripping.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        rest(&mut dripping).await
    };
    assert!(!dripped.await.contains("200 OK"));
    // A handshake that stops half way.
    let mut half = tls.stream().await;
    half.write_all(&[22, 3, 1, 2, 0]).await.unwrap();
    rest(&mut half).await;
    assert!(started.elapsed() < SOON);
}

#[tokio::test]
async fn who_is_refused_does_not_stay_and_who_is_known_may() {
    let limits = ConnectionLimits {
        header: Duration::from_millis(300),
        idle: Duration::from_mins(1),
        ..ConnectionLimits::default()
    };
    let server = serve(limits, false).await;
    let mut known = server.stream().await;
    known.write_all(wire(&echo()).as_bytes()).await.unwrap();
    assert!(answer(&mut known).await.contains("200 OK"));
    let mut stranger = server.stream().await;
    stranger.write_all(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let refused = rest(&mut stranger).await;
    assert!(
        refused.contains("401 Unauthorized") && refused.contains("unauthorized: a bearer token is required"),
        "{refused}"
    );
    // The stranger's end took longer than any header may; whoever is known is still there.
    known.write_all(wire(&echo()).as_bytes()).await.unwrap();
    assert!(answer(&mut known).await.contains("200 OK"));
}

#[tokio::test]
async fn strangers_cannot_keep_others_out() {
    let server = serve(ConnectionLimits { strangers: 4, ..ConnectionLimits::default() }, false).await;
    let mut known = server.stream().await;
    known.write_all(wire(&echo()).as_bytes()).await.unwrap();
    answer(&mut known).await;
    let mut crowd = Vec::new();
    for _ in 0..20 {
        crowd.push(server.stream().await);
    }
    // The first ones had to go, at once and not after ten seconds.
    for early in &mut crowd[..16] {
        assert_eq!(rest(early).await, "");
    }
    let mut late = server.stream().await;
    late.write_all(wire(&echo()).as_bytes()).await.unwrap();
    assert!(answer(&mut late).await.contains("200 OK"));
    known.write_all(wire(&echo()).as_bytes()).await.unwrap();
    assert!(answer(&mut known).await.contains("200 OK"));
}

#[tokio::test]
async fn connections_are_bounded_in_all() {
    let server = serve(ConnectionLimits { connections: 2, ..ConnectionLimits::default() }, false).await;
    let mut two = Vec::new();
    for _ in 0..2 {
        let mut stream = server.stream().await;
        stream.write_all(wire(&echo()).as_bytes()).await.unwrap();
        answer(&mut stream).await;
        two.push(stream);
    }
    assert_eq!(rest(&mut server.stream().await).await, "");
    drop(two);
    let deadline = Instant::now() + SOON;
    loop {
        let mut stream = server.stream().await;
        let sent = stream.write_all(wire(&echo()).as_bytes()).await;
        if sent.is_ok() && rest_or_answer(&mut stream).await.contains("200 OK") {
            break;
        }
        assert!(Instant::now() < deadline);
    }
}

async fn rest_or_answer(stream: &mut TcpStream) -> String {
    let mut piece = [0_u8; 4096];
    let count = tokio::time::timeout(SOON, stream.read(&mut piece)).await.unwrap().unwrap_or(0);
    String::from_utf8_lossy(&piece[..count]).into_owned()
}

#[tokio::test]
async fn leaving_in_the_middle_of_a_call_takes_it_back() {
    let server = serve(ConnectionLimits::default(), true).await;
    let mut connection = server.connect().await;
    let sent =
        tokio::spawn(async move { connection.send_request(request(&call(1, "hold", json!({})))).await });
    one(&server.doors.program.held.began).await;
    sent.abort();
    tokio::time::timeout(SOON, one(&server.doors.program.held.cancelled)).await.unwrap();
    // The same of a stream that has begun.
    let mut stream = serve_and_stream(&server).await;
    one(&server.doors.program.held.began).await;
    stream.shutdown().await.unwrap();
    drop(stream);
    tokio::time::timeout(SOON, one(&server.doors.program.held.cancelled)).await.unwrap();
}

/// Opens a TLS connection and asks for a stream over it.
async fn serve_and_stream(server: &Server) -> tokio_rustls::client::TlsStream<TcpStream> {
    let connector = tokio_rustls::TlsConnector::from(client::tls_config(&server.ca).unwrap());
    let name = rustls::pki_types::ServerName::try_from(server_name(UID)).unwrap();
    let mut stream = connector.connect(name, server.stream().await).await.unwrap();
    let mut message = call(1, "hold", json!({}));
    message["params"]["_meta"] = json!({ "progressToken": 1 });
    let request =
        wire(&message).replacen("host: localhost\r\n", "host: localhost\r\naccept: text/event-stream\r\n", 1);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0_u8; 512];
    let count = tokio::time::timeout(SOON, stream.read(&mut head)).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&head[..count]).contains("text/event-stream"));
    stream
}

#[tokio::test]
async fn the_end_lets_what_runs_finish() {
    let server = serve(ConnectionLimits::default(), true).await;
    let mut connection = server.connect().await;
    let idle = server.connect().await;
    let running = tokio::spawn(async move {
        let answer = connection.send_request(request(&call(1, "hold", json!({})))).await.unwrap();
        answer.into_body().collect().await.unwrap().to_bytes()
    });
    one(&server.doors.program.held.began).await;
    server.shutdown.cancel();
    let refused = async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, refused).await.expect("still listening");
    server.doors.program.held.release.add_permits(1);
    assert!(String::from_utf8_lossy(&soon(running).await.unwrap()).contains("released"));
    tokio::time::timeout(SOON, server.task).await.unwrap().unwrap();
    drop(idle);
}

#[tokio::test]
async fn the_end_does_not_wait_for_ever() {
    let limits = ConnectionLimits { drain: Duration::from_millis(100), ..ConnectionLimits::default() };
    let server = serve(limits, false).await;
    let mut stream = server.stream().await;
    stream.write_all(wire(&call(1, "hold", json!({}))).as_bytes()).await.unwrap();
    one(&server.doors.program.held.began).await;
    server.shutdown.cancel();
    tokio::time::timeout(SOON, server.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_header_is_bounded() {
    let server = serve(ConnectionLimits::default(), false).await;
    let mut stream = server.stream().await;
    let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(256 * 1024));
    // The server may close before all of it is written.
    let _ = stream.write_all(head.as_bytes()).await;
    let refused = rest(&mut stream).await;
    assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 431"), "{refused}");
}

#[tokio::test]
async fn a_refused_body_is_not_waited_for() {
    let server = serve(ConnectionLimits::default(), false).await;
    let mut stream = server.stream().await;
    let head =
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let refused = answer(&mut stream).await;
    assert!(refused.starts_with("HTTP/1.1 401"), "not asked to go on: {refused}");
}
