//! The figures of a run, by the names that its tables have, and what the run was made on.

use serde_json::Value;
use std::fmt;

/// A figure: the part of its table's title before the first colon, its row, its column. Of several rows or columns with
/// `|` between them, the first that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At(pub &'static str, pub &'static str, pub &'static str);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} › {} › {}", self.0, self.1, self.2)
    }
}

/// A results file: what `forebay-texts report` measures, or `forebay-texts … --json` prints.
pub struct Results(pub Value);

impl Results {
    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &Value> {
        let rooms = self.0["rooms"].as_object();
        let tables = rooms.into_iter().flat_map(|rooms| rooms.values());
        tables.filter_map(Value::as_array).flatten()
    }

    /// The median of a figure; `None` if the run does not have it.
    pub fn figure(&self, at: At) -> Option<f64> {
        let row = self.row(at)?;
        let columns = row.0["columns"].as_array()?;
        at.2.split('|').find_map(|name| {
            let column = columns.iter().position(|column| column == name)?;
            let cell = &row.1["cells"][column];
            cell.as_f64().or_else(|| cell["median"].as_f64())
        })
    }

    /// The table and the row.
    fn row(&self, at: At) -> Option<(&Value, &Value)> {
        self.tables().find_map(|table| {
            let title = table["title"].as_str()?;
            let is_it = title.split(": ").next() == Some(at.0);
            let mut rows = table["rows"].as_array()?.iter();
            let row =
                is_it.then(|| rows.find(|row| at.1.split('|').any(|name| row["name"] == name)));
            Some((table, row??))
        })
    }

    /// Whether the run has that row with that column, measured or not.
    pub fn has(&self, at: At) -> bool {
        self.row(at).is_some_and(|(table, row)| {
            let columns = table["columns"].as_array();
            let has = |name: &str| columns.is_some_and(|all| all.iter().any(|it| it == name));
            at.2.split('|').all(has) || row["cells"].as_array().is_some_and(|all| all.len() == 1)
        })
    }

    /// A word about the run, such as its command; empty if it is not there.
    pub fn word(&self, name: &str) -> &str {
        self.0["run"][name].as_str().unwrap_or_default()
    }

    /// The part of the processors' time that other programs had during the run, in percent.
    pub fn others_percent(&self) -> Option<f64> {
        self.0["run"]["others_percent"].as_f64()
    }
}
