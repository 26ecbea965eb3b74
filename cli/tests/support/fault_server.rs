//! An HTTP server that does what a real environment cannot be made to do on demand: cut connections, answer 429, be slow,
//! answer somebody else. It answers pings like any environment, and leaves everything else to the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// One request that came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) message: Value,
}

impl Seen {
    pub(crate) fn id(&self) -> &Value {
        &self.message["id"]
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// What the server does with a request that is no ping: `n` counts them from 0.
pub(crate) type Script = dyn Fn(usize, &Seen, &mut TcpStream) + Send + Sync;

pub(crate) struct FaultServer {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl FaultServer {
    pub(crate) fn start(script: impl Fn(usize, &Seen, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (all, script): (_, Arc<Script>) = (Arc::clone(&seen), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (all, script) = (Arc::clone(&all), Arc::clone(&script));
                std::thread::spawn(move || converse(stream.unwrap(), &all, script.as_ref()));
            }
        });
        Self { port, seen }
    }

    /// Every request but pings, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// Answers with a status, headers and a JSON body.
pub(crate) fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    let _ = stream.write_all((head + &body).as_bytes());
}

/// Answers a call with a tool's result.
pub(crate) fn result(stream: &mut TcpStream, seen: &Seen, text: &str) {
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": false });
    answer(stream, "200 OK", "", &json!({ "jsonrpc": "2.0", "id": seen.id(), "result": result }));
}

fn converse(mut stream: TcpStream, all: &Mutex<Vec<Seen>>, script: &Script) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(seen) = read(&mut reader) {
        if seen.message["method"] == "ping" {
            answer(&mut stream, "200 OK", "", &json!({ "jsonrpc": "2.0", "id": seen.id(), "result": {} }));
            continue;
        }
        let n = {
            let mut all = all.lock().unwrap();
            all.push(seen.clone());
            all.len() - 1
        };
        script(n, &seen, &mut stream);
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let length = head
        .lines()
        .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { head, message: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}
