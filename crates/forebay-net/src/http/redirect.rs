//! Where an answer sends us, and whether we go: how often, never in a circle, never silently out of TLS. Pure.
//!
//! Read `exchange` next, which goes.

use super::{Config, Head, Url};
use forebay::{Error, Result};

/// The addresses asked so far, the last of which is asked now.
#[derive(Debug)]
pub(super) struct Trail {
    visited: Vec<Url>,
    max_redirects: usize,
    allow_downgrade: bool,
}

impl Trail {
    pub fn new(first: Url, config: &Config) -> Self {
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

    /// Goes where `head` sends us; false if it does not.
    ///
    /// # Errors
    /// It sends us nowhere, to what cannot be fetched, in a circle, from https to http, or once too often.
    pub fn follow(&mut self, head: &Head) -> Result<bool> {
        if !matches!(head.status, 301 | 302 | 303 | 307 | 308) {
            return Ok(false);
        }
        let next = self.destination(head)?;
        let refuse = |what: String| Error::new(self.current().to_string(), what);
        if self.visited.contains(&next) {
            return Err(
                refuse(format!("is redirected in a circle, to {next} again"))
                    .advise("The server may want a cookie or a login, which this command has not"),
            );
        }
        if self.current().is_secure() && !next.is_secure() && !self.allow_downgrade {
            return Err(refuse(format!("is redirected out of https, to {next}"))
                .advise("Use --allow-downgrade if others may read and change it on its way"));
        }
        if self.visited.len() > self.max_redirects {
            return Err(refuse(format!(
                "is redirected once more, to {next}, after {} redirects",
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
                format!("status {} without one Location to go to", head.status),
            ));
        };
        let Ok(location) = std::str::from_utf8(location) else {
            return Err(Error::new(from(), "is redirected to what is no UTF-8"));
        };
        self.current()
            .join(location)
            .map_err(|error| Error::new(from(), format!("is redirected badly: {error}")))
    }
}
