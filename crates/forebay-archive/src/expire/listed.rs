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
        let all = dates.len();
        dates.retain(|date| {
            let may_go = clock::begin_of(date).is_none_or(|begin| {
                !rules.is_empty()
                    && keeps_at(rules, &sensor, now.saturating_sub(begin)) != Keeps::Everything
            });
            may_go || recorded.contains(&(sensor.clone(), date.clone()))
        });
        let of_sensor = format!("{}/sensor={sensor}", segment::FOLDER);
        let of_date = |date: &String| format!("{of_sensor}/date={date}/");
        let wanted: BTreeSet<String> = dates.iter().map(of_date).collect();
        // One list has the segments of many dates.
        let listed = match wanted.len() * 2 > all {
            true => BTreeSet::from([of_sensor]),
            false => wanted.clone(),
        };
        Ok((listed, wanted))
    });
    let (listed, wanted): (Vec<_>, Vec<_>) = archive::at_once(dates).await?.into_iter().unzip();
    let wanted: BTreeSet<String> = wanted.into_iter().flatten().collect();
    let listed = listed.iter().flatten();
    let listed = listed.map(async |it| archive.list(it.trim_end_matches('/')).await);
    let mut objects: Vec<_> = archive::at_once(listed)
        .await?
        .into_iter()
        .flatten()
        .collect();
    let folder_of = |key: &str| {
        let mut slashes = key.match_indices('/').map(|it| it.0);
        slashes.nth(2).map(|end| key[..=end].to_owned())
    };
    objects.retain(|it| folder_of(it.location.as_ref()).is_some_and(|it| wanted.contains(&it)));
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::counted::Reads;
    use forebay_testing::folder::Folder;
    use std::sync::Arc;

    #[test]
    fn most_dates_of_a_sensor_are_one_list_and_a_few_of_many_are_one_each() {
        let folder = Folder::new();
        let reads = Arc::<Reads>::default();
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let archive = archive.counted(&reads);
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            for (sensor, old, young) in [("a", 1..=20, 21..=22), ("b", 1..=2, 3..=9)] {
                let old = old.map(|day| format!("2002-01-{day:02}"));
                let young = young.map(|day| format!("2020-01-{day:02}"));
                for date in old.chain(young) {
                    let key = format!("segments/sensor={sensor}/date={date}/hour=01/x.pcapng");
                    archive.put(&key, "".into()).await.unwrap();
                }
            }
            let before = reads.segments.requests();
            let found = by_age(&archive, &["7300d".parse().unwrap()]).await.unwrap();
            // The lists of folders are one a sensor, and one of them.
            assert!(reads.segments.requests() - before <= 2 + 3);
            let is_old = |it: &ObjectMeta| it.location.as_ref().contains("date=2002");
            assert!(found.len() == 22 && found.iter().all(is_old), "{found:?}");
        });
    }
}
