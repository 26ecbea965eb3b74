//! A client of `cuddy mcp proxy`: lines in, lines out.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::{DEADLINE, Home, until};

pub(crate) struct Proxy {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    errors: std::thread::JoinHandle<String>,
}

impl Proxy {
    pub(crate) fn start(home: &Home, args: &[&str]) -> Self {
        let mut all = vec!["mcp", "proxy"];
        all.extend(args);
        let mut child = home
            .command(&all)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                // Whatever is on stdout is JSON-RPC: a line that is none fails the test that waits for the next one.
                let value: Value = serde_json::from_str(&line.unwrap()).unwrap();
                assert_eq!(value["jsonrpc"], "2.0");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Self { input: child.stdin.take(), child, lines, errors }
    }

    pub(crate) fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.write(&message.to_string());
    }

    pub(crate) fn request(&mut self, id: i64, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    pub(crate) fn call(&mut self, id: i64, tool: &str, args: &Value) {
        self.request(id, "tools/call", &json!({ "name": tool, "arguments": args }));
    }

    /// A call that asks for progress; the token is `p<id>`.
    pub(crate) fn call_with_progress(&mut self, id: i64, tool: &str, args: &Value) {
        let meta = json!({ "progressToken": format!("p{id}") });
        self.request(id, "tools/call", &json!({ "name": tool, "arguments": args, "_meta": meta }));
    }

    pub(crate) fn cancel(&mut self, id: i64) {
        self.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
        );
    }

    /// Returns the next line.
    pub(crate) fn next(&self) -> Value {
        self.lines.recv_timeout(DEADLINE).expect("a line in time")
    }

    /// Returns the next answer, whatever progress comes before it.
    pub(crate) fn answer(&self) -> Value {
        loop {
            let line = self.next();
            if line.get("method").is_none() {
                return line;
            }
        }
    }

    /// Says that nothing more comes.
    pub(crate) fn close_input(&mut self) {
        drop(self.input.take());
    }

    /// Closes stdin and returns the exit status, the lines that were left, and what was said on stderr.
    pub(crate) fn finish(mut self) -> (ExitStatus, Vec<Value>, String) {
        drop(self.input.take());
        let status = until("the proxy's end", || self.child.try_wait().unwrap());
        let rest = self.lines.iter().collect();
        (status, rest, self.errors.join().unwrap())
    }
}

/// A client that says one thing, reads nothing, and goes when `gone` returns: both of its pipes are closed then.
pub(crate) fn vanish(home: &Home, message: &Value, gone: impl FnOnce()) -> ExitStatus {
    let mut child = home
        .command(&["mcp", "proxy"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(format!("{message}\n").as_bytes()).unwrap();
    gone();
    drop((input, child.stdout.take()));
    until("the proxy's end", || child.try_wait().unwrap())
}
