//! Which segments have packets that may match, as the index alone knows it: for `hold` and `expire`.

use super::{Answer, Request, command, plan};
use crate::{archive::Archive, segment, table::Catalogue};
use anyhow::{Result, anyhow, ensure};
use forebay_net::{
    filter::tree::{Test, Tree},
    moment,
};
use jiff::Zoned;
use std::{collections::HashMap, sync::Arc};

/// Packets that are looked for in the index.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub tree: Tree,
    /// Packets from this time on, in nanoseconds since 1970.
    pub from: i64,
    /// Packets before this time; `i64::MAX`: all later ones.
    pub to: i64,
    /// Only these sensors; empty: all.
    pub sensors: Vec<String>,
}

/// What the index knows about the packets of a segment that may match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    /// The packets of the rows that may match.
    pub packets: u64,
    /// Whether all packets of these rows match for certain.
    pub is_certain: bool,
}

impl Wanted {
    /// Checks the texts of a request.
    ///
    /// # Errors
    /// The expression, a time or a name is malformed, or no packet can match.
    pub fn parse(
        expression: &str,
        [from, to]: [Option<&str>; 2],
        sensors: &[String],
    ) -> Result<Wanted> {
        let now = Zoned::now();
        let time = |text: Option<&str>, flag: &str, default| match text {
            Some(text) => moment::parse(text, &now).map_err(|what| anyhow!("{flag}: {what}")),
            None => Ok(default),
        };
        Wanted::of(
            expression,
            time(from, "--from", i64::MIN)?,
            time(to, "--to", i64::MAX)?,
            sensors,
        )
    }

    /// As [`parse`](Wanted::parse), with times.
    ///
    /// # Errors
    /// As [`parse`](Wanted::parse).
    pub fn of(expression: &str, from: i64, to: i64, sensors: &[String]) -> Result<Wanted> {
        ensure!(from < to, "no packet is between these times");
        for name in sensors {
            let is_name = segment::is_sensor_name(name);
            ensure!(is_name, "{name}: cannot be the name of a sensor");
        }
        Ok(Wanted {
            tree: command::filter(expression)?.tree(),
            from,
            to,
            sensors: sensors.to_vec(),
        })
    }
}

/// Whether the index decides about every test of the expression, at least for some packets. Of a test that it does not know, each packet
/// may match.
pub fn is_known(tree: &Tree) -> bool {
    match tree {
        Tree::Everything => true,
        Tree::And(all) | Tree::Or(all) => all.iter().all(is_known),
        Tree::Not(inner) => is_known(inner),
        Tree::Test(test, _) => *test != Test::Other,
    }
}

/// The segments with packets that may match. Files of the index that cannot have such packets are left out, as in a search.
///
/// # Errors
/// The store failed, or the index is damaged.
pub async fn matching_segments(
    archive: &Archive,
    catalogue: &Catalogue,
    wanted: Wanted,
) -> Result<HashMap<Arc<str>, Matching>> {
    let request = Request {
        filter: command::filter("")?,
        from: wanted.from,
        to: wanted.to,
        sensors: wanted.sensors,
        answer: Answer::Plan,
        limit: None,
    };
    let blocks = plan::whole_segments(archive, catalogue, request, wanted.tree).await?;
    let matching = |packets, is_certain| Matching {
        packets,
        is_certain,
    };
    Ok(blocks
        .into_iter()
        .map(|it| (it.segment, matching(it.packets, it.is_certain)))
        .collect())
}
