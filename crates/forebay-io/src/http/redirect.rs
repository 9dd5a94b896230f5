//! Decides whether to follow a redirect: limits their number, and rejects loops and silent downgrades from TLS. Pure.

use super::{Head, HttpConfig, Url};
use forebay::{Error, Result};

/// The addresses requested so far, ending with the current one.
#[derive(Debug)]
pub(super) struct Trail {
    visited: Vec<Url>,
    max_redirects: usize,
    allow_downgrade: bool,
}

impl Trail {
    pub fn new(first: Url, config: &HttpConfig) -> Self {
        Trail {
            visited: vec![first],
            max_redirects: config.max_redirects,
            allow_downgrade: config.allow_downgrade,
        }
    }

    pub fn current(&self) -> &Url {
        &self.visited[self.visited.len() - 1]
    }

    /// Redirects followed so far.
    pub fn redirects(&self) -> usize {
        self.visited.len() - 1
    }

    /// Follows the redirect in `head`; false if there is none.
    ///
    /// # Errors
    /// The redirect has no valid target, is a loop, leads from https to http, or exceeds the limit.
    pub fn follow(&mut self, head: &Head) -> Result<bool> {
        if !matches!(head.status, 301 | 302 | 303 | 307 | 308) {
            return Ok(false);
        }
        let next = self.destination(head)?;
        let refuse = |what: String| Error::new(self.current().to_string(), what);
        if self.visited.contains(&next) {
            return Err(
                refuse(format!("is redirected in a loop, to {next} again")).advise(
                    "The server may require a cookie or a login, which forebay does not support",
                ),
            );
        }
        if self.current().is_secure() && !next.is_secure() && !self.allow_downgrade {
            return Err(refuse(format!("is redirected from https to {next}"))
                .advise("Use --allow-downgrade to accept that others may read and change the data in transit"));
        }
        if self.visited.len() > self.max_redirects {
            return Err(refuse(format!(
                "is redirected again, to {next}, after {} redirects",
                self.max_redirects
            ))
            .advise("Use --max-redirects to follow more"));
        }
        self.visited.push(next);
        Ok(true)
    }

    fn destination(&self, head: &Head) -> Result<Url> {
        let from = || self.current().to_string();
        let mut locations = head.values("Location");
        let (Some(location), None) = (locations.next(), locations.next()) else {
            return Err(Error::new(
                from(),
                format!("status {} without exactly one Location", head.status),
            ));
        };
        let Ok(location) = std::str::from_utf8(location) else {
            return Err(Error::new(
                from(),
                "is redirected to an address that is not UTF-8",
            ));
        };
        self.current().join(location).map_err(|error| {
            Error::new(
                from(),
                format!("is redirected to an invalid address: {error}"),
            )
        })
    }
}
