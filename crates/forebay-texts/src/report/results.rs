//! The figures of a run, by the names that its tables have, and what the run was made on.
//!
//! Cache misses that the processor did not count are taken from the simulation (`forebay_bench::cache`), whose tables have the names of the
//! timed ones.

use forebay_bench::method::table::Table;
use serde::Serialize;
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

/// The column of misses that the processor counts.
pub const MISSES: &str = "cache misses";

/// The column of those that are simulated.
const SIMULATED: &str = "simulated misses";

/// A results file: what `forebay-texts report` measures, or `forebay-texts … --json` prints.
pub struct Results(pub Value);

/// The values of figures.
pub struct Values {
    pub all: Vec<f64>,
    /// Whether any of them is simulated.
    pub is_simulated: bool,
}

/// Simulated cache misses, and how they were made.
#[derive(Serialize)]
pub struct Simulation {
    #[serde(skip)]
    pub tables: Vec<Table>,
    pub command: String,
    pub commit: String,
    pub date: String,
}

impl Results {
    /// Puts simulated cache misses beside the figures of the run, in place of earlier ones.
    pub fn put_simulation(&mut self, simulation: Simulation) -> serde_json::Result<()> {
        self.0["rooms"]["cache"] = serde_json::to_value(&simulation.tables)?;
        self.0["simulation"] = serde_json::to_value(simulation)?;
        Ok(())
    }

    /// How the cache misses were simulated, if that was not part of the run.
    pub fn simulation(&self) -> Option<String> {
        let word = |name: &str| self.0["simulation"][name].as_str();
        Some(format!(
            "cache misses simulated by valgrind at commit {}, {}; `{}`",
            word("commit")?,
            word("date")?,
            word("command")?
        ))
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &Value> {
        let rooms = self.0["rooms"].as_object();
        let tables = rooms.into_iter().flat_map(|rooms| rooms.values());
        tables.filter_map(Value::as_array).flatten()
    }

    /// The medians of figures; `None` if the run does not have one of them. Cache misses are all counted or all simulated: the two are
    /// not compared with each other.
    pub fn values(&self, of: &[At]) -> Option<Values> {
        let values = |simulated: bool| {
            let all = of.iter().map(|&At(title, row, columns)| {
                if simulated && columns == MISSES {
                    self.figure(&format!("cache/{title}"), row, SIMULATED)
                } else {
                    self.figure(title, row, columns)
                }
            });
            all.collect::<Option<Vec<f64>>>()
        };
        let counted = values(false).map(|all| (all, false));
        let (all, is_simulated) = counted.or_else(|| Some((values(true)?, true)))?;
        Some(Values { all, is_simulated })
    }

    fn figure(&self, title: &str, row: &str, columns: &str) -> Option<f64> {
        let (table, row) = self.row(title, row)?;
        let all = table["columns"].as_array()?;
        columns.split('|').find_map(|name| {
            let column = all.iter().position(|column| column == name)?;
            let cell = &row["cells"][column];
            cell.as_f64().or_else(|| cell["median"].as_f64())
        })
    }

    /// The table and the row.
    fn row(&self, of_title: &str, of_row: &str) -> Option<(&Value, &Value)> {
        self.tables().find_map(|table| {
            let title = table["title"].as_str()?;
            let is_it = title.split(": ").next() == Some(of_title);
            let mut rows = table["rows"].as_array()?.iter();
            let row =
                is_it.then(|| rows.find(|row| of_row.split('|').any(|name| row["name"] == name)));
            Some((table, row??))
        })
    }

    /// Whether the run has that row with that column, measured or not.
    pub fn has(&self, At(title, row, columns): At) -> bool {
        self.row(title, row).is_some_and(|(table, row)| {
            let all = table["columns"].as_array();
            let has = |name: &str| all.is_some_and(|all| all.iter().any(|it| it == name));
            columns.split('|').all(has) || row["cells"].as_array().is_some_and(|all| all.len() == 1)
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
