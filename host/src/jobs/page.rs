//! Pages of output that never split a character.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The longest UTF-8 sequence, in bytes. A page has room for one, however little was asked for.
const LONGEST: usize = 4;

/// A page of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether a read at the page's end would find something now.
    pub has_more: bool,
    /// Whether the page reaches the end of the file.
    pub at_end: bool,
}

/// Reads a page of a file that is `len` bytes long. `growing` says that it may get longer: then an unfinished character at
/// its end is left for a later read; at the end of a file that is complete it is given as it is.
pub fn read(file: &File, len: u64, offset: u64, max: usize, growing: bool) -> io::Result<Page> {
    let rest = len.saturating_sub(offset);
    let mut bytes = vec![0; usize::try_from(rest).unwrap_or(usize::MAX).min(max.max(LONGEST))];
    let filled = fill(file, &mut bytes, offset)?;
    bytes.truncate(filled);
    let reaches_end = filled as u64 == rest;
    let keep = cut(&bytes, max, reaches_end && !growing);
    // An unfinished character at the end of a growing file is nothing to come back for at once.
    let held_back = growing && reaches_end && filled - keep == unfinished(&bytes);
    bytes.truncate(keep);
    let at_end = keep as u64 == rest;
    Ok(Page { bytes, has_more: !at_end && !held_back, at_end })
}

/// Fills a buffer from a position on. Less than all means that the file is shorter than it was.
fn fill(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns how much of the bytes makes a page: at most `max`, ending between characters. `complete` says that nothing
/// follows them. A first character that is longer than `max` is given whole: a reader must get on.
fn cut(bytes: &[u8], max: usize, complete: bool) -> usize {
    let limit = bytes.len().min(max);
    if complete && limit == bytes.len() {
        return limit;
    }
    let whole = limit - unfinished(&bytes[..limit]);
    if whole > 0 {
        return whole;
    }
    let longer = (limit + 1..=bytes.len().min(LONGEST))
        .map(|len| len - unfinished(&bytes[..len]))
        .find(|whole| *whole > 0);
    longer.unwrap_or(if complete { bytes.len() } else { 0 })
}

/// Returns how many bytes at the end begin a character without finishing it.
pub(crate) fn unfinished(bytes: &[u8]) -> usize {
    for len in 1..LONGEST.min(bytes.len() + 1) {
        let tail = &bytes[bytes.len() - len..];
        match tail[0] {
            // In the middle of a character: its beginning is further left.
            0x80..=0xBF => {}
            0xC2..=0xF4 => {
                let begins = std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
                return if begins { len } else { 0 };
            }
            _ => return 0,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    #[test]
    fn an_unfinished_character_waits_while_the_file_grows() {
        let bytes = "aé".as_bytes();
        let growing = read(&file(&bytes[..2]), 2, 0, 100, true).unwrap();
        assert_eq!((growing.bytes.as_slice(), growing.has_more, growing.at_end), (&b"a"[..], false, false));
        let complete = read(&file(&bytes[..2]), 2, 0, 100, false).unwrap();
        assert_eq!(
            (complete.bytes.as_slice(), complete.has_more, complete.at_end),
            (&bytes[..2], false, true)
        );
        let alone = read(&file(&bytes[1..2]), 1, 0, 100, true).unwrap();
        assert_eq!((alone.bytes.len(), alone.has_more), (0, false));
    }

    #[test]
    fn a_page_has_room_for_one_character() {
        let text = "😀b";
        let page = read(&file(text.as_bytes()), 5, 0, 1, false).unwrap();
        assert_eq!((page.bytes.as_slice(), page.has_more), ("😀".as_bytes(), true));
        let page = read(&file(text.as_bytes()), 5, 4, 1, true).unwrap();
        assert_eq!((page.bytes.as_slice(), page.has_more, page.at_end), (&b"b"[..], false, true));
    }

    #[test]
    fn what_is_no_character_is_not_waited_for() {
        let bytes = [0xC2, 0xF0, 0x90, 0x80, 0];
        let page = read(&file(&bytes), 5, 0, 1, false).unwrap();
        assert_eq!((page.bytes.as_slice(), page.has_more), (&bytes[..1], true));
    }

    proptest! {
        #[test]
        fn pages_of_text_are_text_and_add_up(text in "\\PC{0,200}", max in 1_usize..40, growing: bool) {
            let (file, len) = (file(text.as_bytes()), text.len() as u64);
            let (mut got, mut offset) = (String::new(), 0);
            loop {
                let page = read(&file, len, offset, max, growing).unwrap();
                prop_assert!(page.bytes.len() <= max.max(LONGEST));
                got.push_str(std::str::from_utf8(&page.bytes).unwrap());
                offset += page.bytes.len() as u64;
                prop_assert_eq!(page.has_more, offset < len);
                prop_assert_eq!(page.at_end, offset == len);
                if page.at_end {
                    break;
                }
                prop_assert!(!page.bytes.is_empty());
            }
            prop_assert_eq!(got, text);
        }

        #[test]
        fn pages_of_bytes_add_up(bytes in proptest::collection::vec(any::<u8>(), 0..200), max in 1_usize..40) {
            let (file, len) = (file(&bytes), bytes.len() as u64);
            let mut got = Vec::new();
            loop {
                let page = read(&file, len, got.len() as u64, max, false).unwrap();
                got.extend_from_slice(&page.bytes);
                if page.at_end {
                    break;
                }
                prop_assert!(!page.bytes.is_empty() && page.has_more);
            }
            prop_assert_eq!(got, bytes);
        }
    }
}
