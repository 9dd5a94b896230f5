//! The segments that may go. Those of the other dates are not listed, so an expiry costs the same in an old archive.

use super::{
    clock,
    rule::{Keeps, Rule, keeps_at},
};
use crate::{
    archive::{self, Archive},
    ledger, segment,
};
use anyhow::Result;
use object_store::ObjectMeta;
use std::collections::BTreeSet;

/// The segments of the dates on which a rule lets one go, or an earlier run has recorded one.
pub(super) async fn by_age(archive: &Archive, rules: &[Rule]) -> Result<Vec<ObjectMeta>> {
    let Some(recorded) = ledger::dates_with_expired(archive).await? else {
        return archive.list(segment::FOLDER).await;
    };
    let now = clock::now_ns();
    let dates = archive.sensors().await?.into_iter().map(async |sensor| {
        let mut dates = archive.date_folders(&sensor).await?;
        dates.retain(|date| {
            let may_go = clock::begin_of(date).is_none_or(|begin| {
                !rules.is_empty()
                    && keeps_at(rules, &sensor, now.saturating_sub(begin)) != Keeps::Everything
            });
            may_go || recorded.contains(&(sensor.clone(), date.clone()))
        });
        let folder = |date| format!("{}/sensor={sensor}/date={date}", segment::FOLDER);
        Ok(dates.into_iter().map(folder).collect::<BTreeSet<_>>())
    });
    let folders: BTreeSet<String> = archive::at_once(dates)
        .await?
        .into_iter()
        .flatten()
        .collect();
    let listed = folders.iter().map(async |it| archive.list(it).await);
    Ok(archive::at_once(listed)
        .await?
        .into_iter()
        .flatten()
        .collect())
}
