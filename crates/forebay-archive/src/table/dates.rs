//! What was found out about segments of old dates.

use std::collections::{HashMap, HashSet};

/// The segments in files that were read, by date.
#[derive(Clone, Debug, Default)]
pub(super) struct Dates(pub(super) HashMap<String, Seen>);

#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) paths: HashSet<String>,
    /// As transactions name them.
    pub(super) segments: HashSet<String>,
}

impl Dates {
    /// The rows of these segments were added in these files. They need not be read then.
    pub(super) fn added(&mut self, paths: Vec<String>, segments: Vec<String>) {
        for path in paths {
            let date = path
                .split('/')
                .next()
                .and_then(|it| it.strip_prefix("date="));
            // Nobody has asked for another date.
            if let Some(seen) = date.and_then(|date| self.0.get_mut(date)) {
                seen.segments.extend(segments.iter().cloned());
                seen.paths.insert(path);
            }
        }
    }
}
