//! Why a request failed, and what to do about it.

use super::name::without_passwords;
use anyhow::Result;
use object_store::Error;
use std::{fmt, io};

/// An error of the store, with what to do about it.
pub(super) fn explain(archive: &str, error: Error, tried: &str) -> anyhow::Error {
    let text = error.to_string();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let advice = if has(&[
        "NoSuchBucket",
        "NoSuchContainer",
        "ContainerNotFound",
        "bucket does not exist",
    ]) {
        "The bucket does not exist: create it, or correct its name"
    } else if matches!(error, Error::Unauthenticated { .. })
        || has(&[
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "ExpiredToken",
            "401 Unauthorized",
            "169.254.169.254",
        ])
    {
        "The credentials are missing, wrong or expired: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or those of your store"
    } else if matches!(error, Error::PermissionDenied { .. })
        || has(&["AccessDenied", "403 Forbidden"])
    {
        "These credentials may not do this: give them the rights of their role, which are in docs/archive-roles.md"
    } else if has(&[
        "error sending request",
        "onnection refused",
        "dns error",
        "timed out",
    ]) {
        "The store does not answer: check the address (AWS_ENDPOINT_URL) and the network"
    } else if has(&[
        "500 Internal",
        "502 Bad",
        "503 Service",
        "504 Gateway",
        "SlowDown",
    ]) {
        "The store cannot answer now: try again later"
    } else if has(&["No space left"]) {
        "The disk of the archive is full"
    } else {
        ""
    };
    let what = match advice {
        "" => format!("{archive}: {tried}"),
        advice => format!("{archive}: {tried}. {advice}"),
    };
    let fault = StoreFault {
        tried: what,
        text: innermost(&error),
        is_missing: matches!(error, Error::NotFound { .. }),
        is_refused: matches!(
            error,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. }
        ) || anyhow::Chain::new(&error).any(is_denied),
    };
    fault.error()
}

/// The cause of every error that a store has answered, or that it has not answered. Other errors are about what it holds.
#[derive(Clone, Debug, Default)]
pub struct StoreFault {
    tried: String,
    text: String,
    /// The object does not exist.
    pub is_missing: bool,
    /// The store answers, and refuses this: the credentials are wrong, or not sufficient for this object, or it is in cold storage.
    pub is_refused: bool,
}

impl StoreFault {
    /// The one that caused this error, also through the errors of a library that asked for bytes.
    pub fn of(error: &anyhow::Error) -> Option<&StoreFault> {
        error.chain().find_map(|it| it.downcast_ref())
    }

    /// Whether this error says nothing about what the store holds: it did not answer, or refused.
    pub fn is_cause(error: &anyhow::Error) -> bool {
        StoreFault::of(error).is_some_and(|it| !it.is_missing)
    }

    /// Whether the store did not answer: other requests will fail, too.
    pub(crate) fn is_outage(error: &anyhow::Error) -> bool {
        StoreFault::of(error).is_some_and(|it| !it.is_missing && !it.is_refused)
    }

    /// This fault, with what was tried, and without what others added.
    pub(crate) fn error(&self) -> anyhow::Error {
        anyhow::Error::new(self.clone()).context(self.tried.clone())
    }
}

/// Counts requests that the store did not answer: it may be unable to return one object for ever.
#[derive(Debug, Default)]
pub(crate) struct Faults(u32);

impl Faults {
    /// Requests that may fail one after the other before the store counts as absent.
    const MAX: u32 = 16;

    /// Passes on what a request returned.
    ///
    /// # Errors
    /// Its own error, if the store counts as absent.
    pub(crate) fn pass<T>(&mut self, done: Result<T>) -> Result<Result<T>> {
        self.0 = match &done {
            Err(error) if StoreFault::is_outage(error) => self.0 + 1,
            // A store that refuses an object, in cold storage for example, answers.
            _ => 0,
        };
        match done {
            Err(error) if self.0 == Faults::MAX => Err(error),
            done => Ok(done),
        }
    }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StoreFault {}

/// A segment has the directory of another segment.
#[derive(Debug)]
pub struct OtherSegment;

impl fmt::Display for OtherSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its directory is that of another segment")
    }
}

impl std::error::Error for OtherSegment {}

/// Whether a folder refuses this.
fn is_denied(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|it| it.kind() == io::ErrorKind::PermissionDenied)
}

/// The innermost cause in one line: each layer of the client repeats the causes below it.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let last = anyhow::Chain::new(error).next_back();
    let text = last.unwrap_or(error).to_string();
    // Object stores answer in XML.
    let tag = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once("</")?.0)
    };
    match (tag("Code"), tag("Message")) {
        (Some(code), Some(message)) => format!("{message} ({code})"),
        _ => without_passwords(text.lines().next().unwrap_or_default()).into_owned(),
    }
}
