//! Text that is shown as it is.

/// `text` with what would begin a tag or an entity, or end an attribute, written as an entity.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_escaped_begins_a_tag_or_ends_an_attribute() {
        assert_eq!(
            super::escaped("a<b> & \"c\""),
            "a&lt;b&gt; &amp; &quot;c&quot;"
        );
    }
}
