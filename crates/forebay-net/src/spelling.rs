//! The name that was probably meant by one that does not exist.

/// Returns the name that is most like `typed`: up to a third of its letters differ, or one letter.
///
/// ```
/// use forebay_net::spelling::nearest;
/// assert_eq!(nearest(["lo", "eth0"], "eht0"), Some("eth0"));
/// assert_eq!(nearest(["lo", "eth0"], "wlan0"), None);
/// ```
pub fn nearest<'a>(names: impl IntoIterator<Item = &'a str>, typed: &str) -> Option<&'a str> {
    let names = names.into_iter().map(|name| (distance(name, typed), name));
    let (changes, near) = names.min()?;
    (changes <= (typed.chars().count() / 3).max(1)).then_some(near)
}

/// The number of letters to add, remove, change or swap with their neighbour, to make one word of the other.
pub(crate) fn distance(from: &str, to: &str) -> usize {
    let [from, to] = [from, to].map(|word| word.chars().collect::<Vec<_>>());
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut cost = (rows[i][j] + usize::from(a != b)).min(rows[i][j + 1] + 1);
            cost = cost.min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                cost = cost.min(rows[i - 1][j - 1] + 1);
            }
            row.push(cost);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances_count_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("eth0", "eth0"), 0);
        assert_eq!(distance("eth0", "etho"), 1);
        assert_eq!(distance("eth0", "eht0"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
