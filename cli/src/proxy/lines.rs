//! Lines of bounded length. One that is too long is skipped to its end, and said to have been.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// The longest line, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// A line of more than the bound; it was skipped.
    TooLong,
    /// Nothing comes any more.
    End,
}

/// Reads lines of at most `limit` bytes.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    limit: usize,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Returns a reader of lines.
    pub(super) const fn new(reader: R, limit: usize) -> Self {
        Self { reader, limit }
    }

    /// Reads the next line. Not cancel safe: it is read by a task that does nothing else.
    pub(super) async fn next(&mut self) -> std::io::Result<Line> {
        let mut line = Vec::new();
        let mut too_long = false;
        loop {
            let buffer = self.reader.fill_buf().await?;
            if buffer.is_empty() {
                // A last line without an end is a line.
                return Ok(match (too_long, line.is_empty()) {
                    (true, _) => Line::TooLong,
                    (false, true) => Line::End,
                    (false, false) => Line::Whole(line),
                });
            }
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            if line.len() + piece.len() > self.limit {
                too_long = true;
                line = Vec::new();
            } else if !too_long {
                line.extend_from_slice(piece);
            }
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(if too_long { Line::TooLong } else { Line::Whole(line) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn read(input: &'static [u8], buffer: usize) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, input), 8);
        let mut all = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                Line::End => return all,
                line => all.push(line),
            }
        }
    }

    #[tokio::test]
    async fn a_long_line_is_skipped_and_the_next_one_read() {
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        for buffer in [1, 3, 64] {
            let lines = read(b"one\r\n\n12345678\n123456789\nlast", buffer).await;
            let expected = [whole("one"), whole(""), whole("12345678"), Line::TooLong, whole("last")];
            assert_eq!(lines, expected, "with a buffer of {buffer}");
            assert_eq!(read(b"1234567890", buffer).await, [Line::TooLong]);
        }
    }
}
