//! Copies messages. Most messages are short.

const WORD: usize = 8;

/// Copies all of `from` into `to`, which has the same length. Up to two words are copied without a call.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    match (from.first_chunk::<WORD>(), from.last_chunk::<WORD>()) {
        (Some(first), Some(last)) if from.len() <= 2 * WORD && to.len() == from.len() => {
            to[..WORD].copy_from_slice(first);
            to[from.len() - WORD..].copy_from_slice(last); // overlaps the first word if the message is shorter than two words
        }
        _ => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_all_lengths_are_whole() {
        let from: Vec<u8> = (1..100).collect();
        for len in 0..from.len() {
            let mut to = vec![0; len + 1];
            copy(&from[..len], &mut to[..len]);
            assert!(to[..len] == from[..len] && to[len] == 0);
        }
    }
}
