//! Bounds on text that came from elsewhere, before anybody reads it.

/// The most characters of a name.
pub(crate) const NAME: usize = 100;

/// Returns at most `max` characters of one line: control characters, which could reach a terminal, become `?`, and so do
/// the marks that turn the direction of writing.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    text.chars().take(max).map(|c| if c.is_control() || is_direction(c) { '?' } else { c }).collect()
}

/// Returns at most `max` characters; lines and tabs stay.
pub(crate) fn lines(text: &str, max: usize) -> String {
    let bad = |c: char| (c.is_control() && c != '\n' && c != '\t') || is_direction(c);
    text.chars().take(max).map(|c| if bad(c) { '?' } else { c }).collect()
}

/// Returns an error and all its causes as one line, for the log.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_a_terminal() {
        assert_eq!(one_line("a\u{1b}[31mb\n\u{202e}c", 100), "a?[31mb??c");
        assert_eq!(lines("a\n\u{7}b", 100), "a\n?b");
        assert_eq!(one_line(&"ä".repeat(300), 100).chars().count(), 100);
    }
}
