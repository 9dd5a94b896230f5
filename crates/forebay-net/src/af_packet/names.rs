//! Finds an interface by the name that a user typed, and suggests names if there is none.

use crate::link::Link;
use forebay::{Error, Result};

/// The name for all interfaces together, unless an interface has this name.
pub(super) const ANY: &str = "any";

/// Returns the interface `name`.
pub(crate) fn find<'a>(links: &'a [Link], name: &str) -> Result<&'a Link> {
    if let Some(link) = links.iter().find(|link| link.name == name) {
        return Ok(link);
    }
    let mut text = format!("no interface '{name}'; there are: {}", all(links));
    if let Some(near) = nearest(links, name) {
        text += &format!(" (did you mean {near}?)");
    }
    Err(Error::new("", text))
}

fn all(links: &[Link]) -> String {
    let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
    match names.as_slice() {
        [] => "sim".into(),
        some => format!("{}, {ANY}, and sim", some.join(", ")),
    }
}

/// Returns the name that was probably meant: up to a third of it differs, or one letter.
fn nearest<'a>(links: &'a [Link], name: &str) -> Option<&'a str> {
    let names = links
        .iter()
        .map(|link| link.name.as_str())
        .chain([ANY, "sim"]);
    let (changes, near) = names.map(|near| (distance(near, name), near)).min()?;
    (changes <= (name.chars().count() / 3).max(1)).then_some(near)
}

/// The number of letters to insert, delete or replace to turn one word into the other (Levenshtein distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (done, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], done + 1);
        for at in 1..row.len() {
            let replaced = diagonal + usize::from(b[at - 1] != letter);
            diagonal = row[at];
            row[at] = replaced.min(diagonal + 1).min(row[at - 1] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(names: &[&str]) -> Vec<Link> {
        let link = |&name: &&str| Link {
            name: name.into(),
            ..Link::default()
        };
        names.iter().map(link).collect()
    }

    #[test]
    fn a_wrong_name_gets_a_list_and_a_guess() {
        let here = links(&["lo", "eth0", "veth1"]);
        let text = |name| find(&here, name).unwrap_err().to_string();
        let known = "there are: lo, eth0, veth1, any, and sim";
        assert_eq!(
            text("etho"),
            format!("no interface 'etho'; {known} (did you mean eth0?)")
        );
        assert_eq!(text("wlan0"), format!("no interface 'wlan0'; {known}"));
        let error = find(&links(&["lo"]), "l").unwrap_err().to_string();
        assert!(
            error.ends_with("lo, any, and sim (did you mean lo?)"),
            "{error}"
        );
        assert_eq!(find(&here, "veth1").unwrap().name, "veth1");
    }

    #[test]
    fn distances_count_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("eth0", "eth0"), 0);
        assert_eq!(distance("eth0", "etho"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
