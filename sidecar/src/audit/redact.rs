//! What of a command line is kept: enough to know what was run, no secret that can be told by its look or its name.
//!
//! A filter by looks misses what looks like nothing. The trail is as confidential as a shell's history, and says so.

use crate::text;

/// The most arguments that are kept.
const MAX_ARGS: usize = 64;
/// The most characters of one.
const MAX_CHARS: usize = 256;
const HIDDEN: &str = "***";
/// Names of what is secret, as parts of a flag's or a variable's name.
const NAMES: [&str; 7] = ["password", "passwd", "passphrase", "secret", "token", "apikey", "credential"];
/// Names of what is secret, as whole words of a flag's or a variable's name (`--author` is none).
const WORDS: [&str; 6] = ["auth", "authorization", "key", "pass", "pwd", "pat"];
/// How secrets of well-known services begin.
const PREFIXES: [&str; 12] =
    ["ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-", "xoxb-", "xoxp-", "AKIA", "ASIA", "eyJ", "npm_"];

/// Returns the arguments with their secrets hidden, each one and all of them cut to size.
pub(super) fn argv(argv: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut hide_next = false;
    for arg in argv.iter().take(MAX_ARGS) {
        let is_flag = arg.starts_with('-');
        let shown = if hide_next && !is_flag { HIDDEN.to_owned() } else { words(arg) };
        hide_next = is_flag && !arg.contains('=') && is_secret_name(arg);
        kept.push(text::one_line(&shown, MAX_CHARS));
    }
    if argv.len() > MAX_ARGS {
        kept.push(format!("... {} more", argv.len() - MAX_ARGS));
    }
    kept
}

/// Hides the secrets among the words of one argument, which may be a whole script.
fn words(arg: &str) -> String {
    let mut hide_next = false;
    let mut shown = String::new();
    for piece in arg.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let space = &piece[word.len()..];
        let bare = word.trim_matches(['"', '\'', ':']).to_ascii_lowercase();
        let is_scheme = bare == "bearer" || bare == "basic";
        if hide_next && !is_scheme && !word.is_empty() && !word.starts_with('-') {
            shown.push_str(HIDDEN);
            hide_next = false;
        } else {
            shown.push_str(&hide(word));
            let introduces = word.starts_with('-') && !word.contains('=') && is_secret_name(word);
            if !word.is_empty() {
                hide_next = introduces || is_scheme || bare == "authorization";
            }
        }
        shown.push_str(space);
    }
    shown
}

fn hide(word: &str) -> String {
    let core = word.trim_start_matches(['"', '\'', '(']);
    if PREFIXES.iter().any(|p| core.starts_with(p) && core.len() >= p.len() + 8) {
        return HIDDEN.to_owned();
    }
    if let Some((name, value)) = word.split_once('=')
        && !value.is_empty()
    {
        if is_secret_name(name) {
            return format!("{name}={HIDDEN}");
        }
        return format!("{name}={}", hide(value));
    }
    if let Some((scheme, rest)) = word.split_once("://") {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        if let Some(at) = rest[..end].rfind('@') {
            return format!("{scheme}://{HIDDEN}{}", &rest[at..]);
        }
    }
    word.to_owned()
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|secret| name.contains(secret))
        || name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_is_told() {
        let table: [(&[&str], &[&str]); 11] = [
            (&["git", "commit", "--author", "Me <me@h>"], &["git", "commit", "--author", "Me <me@h>"]),
            (&["curl", "-H", "Authorization: abc"], &["curl", "-H", "Authorization: ***"]),
            (&["git", "push", "origin"], &["git", "push", "origin"]),
            (&["curl", "--password", "hunter2", "-v"], &["curl", "--password", "***", "-v"]),
            (&["x", "--api-key=abc", "--name=abc"], &["x", "--api-key=***", "--name=abc"]),
            (&["env", "GITHUB_TOKEN=abc", "make"], &["env", "GITHUB_TOKEN=***", "make"]),
            (&["git", "clone", "https://me:pw@h.example/r"], &["git", "clone", "https://***@h.example/r"]),
            (
                &["sh", "-c", "X_SECRET=abc run --token abc ok"],
                &["sh", "-c", "X_SECRET=*** run --token *** ok"],
            ),
            (&["curl", "-H", "Authorization: Bearer abc"], &["curl", "-H", "Authorization: Bearer ***"]),
            (&["say", "ghp_0123456789", "eyJhbGciOiJFZERTQSJ9.x.y"], &["say", "***", "***"]),
            (&["a\u{1b}[31m\nb"], &["a?[31m?b"]),
        ];
        for (given, expected) in table {
            let given: Vec<String> = given.iter().map(|s| (*s).to_owned()).collect();
            assert_eq!(argv(&given), expected);
        }
    }

    #[test]
    fn command_lines_are_cut() {
        let kept = argv(&vec!["é".repeat(1000); 1000]);
        assert_eq!(kept.len(), MAX_ARGS + 1);
        assert_eq!(kept[0].chars().count(), MAX_CHARS);
        assert_eq!(kept[MAX_ARGS], "... 936 more");
    }
}
