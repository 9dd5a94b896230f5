//! A line of the protocol: `interface {value=forebay-sim}{display=…}`.

use std::fmt;

pub struct Sentence(String);

impl Sentence {
    pub fn of(kind: &str) -> Sentence {
        Sentence(format!("{kind} "))
    }

    /// With one more value. Wireshark takes a brace for its end and has no way to quote one.
    pub fn with(mut self, key: &str, value: &str) -> Sentence {
        let is_plain = |&it: &char| !it.is_control() && it != '{' && it != '}';
        let value: String = value.chars().filter(is_plain).collect();
        self.0 += &format!("{{{key}={value}}}");
        self
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_where_its_brace_is() {
        let line = Sentence::of("dlt")
            .with("number", "1")
            .with("name", "a}{b=c}\nd");
        assert_eq!(line.to_string(), "dlt {number=1}{name=ab=cd}\n");
    }
}
