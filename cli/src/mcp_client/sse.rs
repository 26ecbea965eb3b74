//! Server-sent events (WHATWG HTML, section 9.2), as far as MCP uses them: the data of each event.

/// One event is larger than the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Takes bytes in whatever pieces they come, and gives out the data of the events that are complete.
#[derive(Debug)]
pub(super) struct Parser {
    limit: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
}

impl Parser {
    /// Returns a parser of events of at most `limit` bytes.
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), data: Vec::new(), has_data: false, after_cr: false }
    }

    /// Takes bytes and returns the data of the events that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, TooLarge> {
        let mut events = Vec::new();
        for &byte in bytes {
            let follows_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if follows_cr => {}
                b'\n' | b'\r' => self.end_line(&mut events),
                _ if self.line.len() + self.data.len() >= self.limit => return Err(TooLarge),
                _ => self.line.push(byte),
            }
        }
        Ok(events)
    }

    fn end_line(&mut self, events: &mut Vec<String>) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            // An event without data is not dispatched: comments, pings and priming events end here.
            if std::mem::take(&mut self.has_data) && !data.is_empty() {
                events.push(String::from_utf8_lossy(&data).into_owned());
            }
            return;
        }
        let Some(value) = line.strip_prefix(b"data") else { return };
        let value = match value {
            [] => value,
            [b':', b' ', rest @ ..] | [b':', rest @ ..] => rest,
            _ => return,
        };
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pieces: &[&str]) -> Vec<String> {
        let mut parser = Parser::new(1000);
        pieces.iter().flat_map(|piece| parser.push(piece.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn events_come_in_whatever_pieces() {
        let stream =
            ": ping\n\nid: 1\ndata:\n\nevent: message\ndata: {\"a\":\ndata: 1}\n\ndata:{}\r\n\r\ndata: cut";
        let whole = parse(&[stream]);
        assert_eq!(whole, ["{\"a\":\n1}", "{}"]);
        let letters: Vec<String> = stream.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(parse(&letters), whole);
    }

    #[test]
    fn fields_of_other_names_are_not_data() {
        assert_eq!(parse(&["database: 1\nretry: 5\ndata: x\n\n"]), ["x"]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::new(10);
        assert_eq!(parser.push(b"data: 0123456789"), Err(TooLarge));
        let mut parser = Parser::new(10);
        let many = "data:1\n".repeat(20);
        assert_eq!(parser.push(many.as_bytes()), Err(TooLarge));
    }
}
