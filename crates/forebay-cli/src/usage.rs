//! Requests that cannot be carried out.

use anyhow::Result;

/// A bad request: exit code 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

pub fn refuse<T>(what: String) -> Result<T> {
    Err(Usage(what).into())
}
