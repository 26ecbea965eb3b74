//! A bound on what JSON becomes in memory: `[0,0,0...` takes two bytes a number on the wire and many times that once it is
//! parsed, so values are counted before the parser sees them.

/// The most values in one answer. A thousand job records of twenty fields are a tenth of it.
const MAX_VALUES: usize = 200_000;

/// Says whether a text holds no more values than an answer may. Commas and colons outside of strings are counted, and
/// brackets: each value has one of them.
pub(super) fn is_bounded(json: &[u8]) -> bool {
    let (mut count, mut inside, mut escaped) = (0_usize, false, false);
    for byte in json {
        if inside {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => inside = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => inside = true,
            b',' | b':' | b'[' | b'{' => count += 1,
            _ => {}
        }
        if count > MAX_VALUES {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_text_is_not() {
        assert!(is_bounded(br#"{"a":[1,2,"x,y:[{"]}"#));
        assert!(is_bounded(format!("{{\"stdout\":\"{}\"}}", ",\\\"".repeat(1_000_000)).as_bytes()));
        assert!(!is_bounded(format!("[{}", "0,".repeat(MAX_VALUES)).as_bytes()));
        assert!(!is_bounded("[".repeat(MAX_VALUES + 1).as_bytes()));
    }
}
