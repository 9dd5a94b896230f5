//! Names of archives and servers as they may be printed: without passwords.

use std::{borrow::Cow, fmt};

/// A text without what may be passwords in its URLs: `nats://USER:PASSWORD@HOST` becomes `nats://***@HOST`, also if the URL is mistyped.
///
/// ```
/// use forebay_archive::archive::without_passwords;
/// assert_eq!(without_passwords("(s3:/key:secret@bucket): opening it"), "(s3:/***@bucket): opening it");
/// ```
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    if !text.contains('@') {
        return text.into();
    }
    let is_between = |it: char| it.is_whitespace() || "'\"`()<>".contains(it);
    let words = text.split_inclusive(is_between);
    words.map(without_password).collect::<String>().into()
}

/// A single URL without what may be a password.
pub fn without_password(url: &str) -> Cow<'_, str> {
    let Some((head, host)) = url.rsplit_once('@') else {
        return url.into();
    };
    let Some((scheme, rest)) = head.split_once(':') else {
        return url.into();
    };
    let user = rest.trim_start_matches('/');
    let scheme_name = scheme.rsplit('=').next().unwrap_or_default();
    let is_azure = ["az", "adl"].contains(&scheme_name) || scheme_name.starts_with("abf");
    let is_nats = ["nats", "tls"].contains(&scheme_name);
    // A path may have these characters, too, and the URL of a container in Azure has an `@`.
    let has_path = user.contains('/') || is_azure;
    if scheme.contains('/') || (has_path && !user.contains(':') && !is_nats) {
        return url.into();
    }
    let start = match rest.len() - user.len() {
        0 if !is_nats => 0,
        _ => head.len() - user.len(),
    };
    format!("{}***@{host}", &url[..start]).into()
}

/// A text without control characters, which could change what a terminal shows. Line breaks stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_harmful = |it: char| it.is_control() && it != '\n';
    match text.contains(is_harmful) {
        false => text.into(),
        true => text.replace(is_harmful, " ").into(),
    }
}

/// What the user asked for cannot be right, whatever the archive holds. The command exits with 2.
#[derive(Debug)]
pub struct BadRequest(pub String);

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadRequest {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_not_printed() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}\n"), "a [2Jb \n");
        assert_eq!(printable("hall-3"), "hall-3");
    }

    #[test]
    fn what_may_be_a_password_is_not_printed_and_other_names_stay() {
        for (url, printed) in [
            ("nats://a:secret@host:4222/lab", "nats://***@host:4222/lab"),
            ("nats://secret@host", "nats://***@host"),
            ("nats://se/cr@et@host", "nats://***@host"),
            ("nats:/a:secret@host", "nats:/***@host"),
            ("nats:secret@host", "nats:***@host"),
            ("a:secret@host", "***@host"),
            ("--from=nats://a:secret@host", "--from=nats://***@host"),
            ("s3://key:sec/ret@bucket/prefix", "s3://***@bucket/prefix"),
            ("s3:///key:secret@bucket", "s3:///***@bucket"),
            ("abfss://box@account.net/a", "abfss://box@account.net/a"),
            ("abfss://box:secret@account.net", "abfss://***@account.net"),
            ("s3://bucket/from@here", "s3://bucket/from@here"),
            ("/data/12:30@hall", "/data/12:30@hall"),
            ("folder@host", "folder@host"),
            ("s3://bucket", "s3://bucket"),
        ] {
            assert_eq!(without_password(url), printed, "{url}");
            let text = format!("error: '{url}': no");
            assert_eq!(
                without_passwords(&text),
                format!("error: '{printed}': no"),
                "{url}"
            );
        }
    }
}
