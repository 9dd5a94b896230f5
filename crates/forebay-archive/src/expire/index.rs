//! What the index knows about the segments that may go.

use super::{clock, remove::Segment, rule::Keeps};
use crate::{
    archive::Archive,
    find::{Matching, Wanted, matching_segments},
    hold::Hold,
    table::Catalogue,
};
use anyhow::Result;
use forebay_net::filter::tree::Tree;
use object_store::ObjectMeta;
use std::{collections::HashMap, sync::Arc};

/// A day, in nanoseconds.
const DAY_NS: u64 = 86_400_000_000_000;

/// The index of an archive, in one version. `None`: there is none.
pub struct Index {
    archive: Archive,
    catalogue: Option<Catalogue>,
}

/// Segments that stay, by their keys, and why.
pub type Staying = HashMap<Arc<str>, String>;

/// When the packets of a segment were captured: from this time on, and before this one.
pub type Span = (u64, u64);

/// What is kept, and the keys and spans of the segments for which that holds.
pub type Class<'k> = (Keeps, Vec<(&'k str, Span)>);

impl Index {
    pub async fn open(archive: &Archive) -> Result<Index> {
        Ok(Index {
            archive: archive.clone(),
            catalogue: Catalogue::open(archive).await?,
        })
    }

    async fn matching(&self, wanted: Wanted) -> Result<HashMap<Arc<str>, Matching>> {
        match &self.catalogue {
            Some(catalogue) => matching_segments(&self.archive, catalogue, wanted).await,
            None => Ok(HashMap::new()),
        }
    }

    /// The segments with packets that these holds may hold.
    pub async fn held(&self, holds: &[Hold]) -> Result<Staying> {
        let mut held = Staying::new();
        for hold in holds {
            for (key, matching) in self.matching(hold.wanted()?).await? {
                held.entry(key).or_insert_with(|| {
                    let verb = verb(&matching);
                    format!("{verb} the hold {} (`{}`)", hold.case, hold.expression)
                });
            }
        }
        Ok(held)
    }

    /// The segments with packets that a rule may keep.
    pub async fn kept(&self, classes: Vec<Class<'_>>) -> Result<Staying> {
        let mut kept = Staying::new();
        for (keeps, segments) in classes {
            let Keeps::Matching(tree, rules) = keeps else {
                continue;
            };
            let spans = segments.iter().map(|it| it.1);
            let matching = self.matching(between(tree, spans)).await?;
            for (key, _) in segments {
                if let Some((key, matching)) = matching.get_key_value(key) {
                    kept.insert(key.clone(), format!("{} {rules}", verb(matching)));
                }
            }
        }
        Ok(kept)
    }

    /// The packets that the index has of each of these segments, and of others.
    pub async fn packets(&self, segments: &[&Segment]) -> Result<HashMap<Arc<str>, u64>> {
        let spans = segments.iter().map(|it| it.span_or_stored());
        let matching = self.matching(between(Tree::Everything, spans)).await?;
        let packets = |(key, it): (Arc<str>, Matching)| (key, it.packets);
        Ok(matching.into_iter().map(packets).collect())
    }
}

fn verb(matching: &Matching) -> &'static str {
    match matching.is_certain {
        true => "has packets of",
        false => "may have packets of",
    }
}

/// Packets in any of these spans.
fn between(tree: Tree, spans: impl Iterator<Item = Span>) -> Wanted {
    let (mut from, mut to) = (u64::MAX, 0);
    for span in spans {
        (from, to) = (from.min(span.0), to.max(span.1));
    }
    let ns = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    Wanted {
        tree,
        // Packets after the year 2262 have the last time of all.
        from: ns(from.min(to)).min(i64::MAX - 1),
        to: ns(to),
        sensors: Vec::new(),
    }
}

/// The span of a segment that began in this hour, if it is not longer than a day.
pub fn span_of_hour(object: &ObjectMeta) -> Span {
    let hour = clock::hour_of(object);
    (hour, hour.saturating_add(DAY_NS))
}
