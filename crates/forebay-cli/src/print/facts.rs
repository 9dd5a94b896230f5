//! What the decoders find in messages, by key: the very text that they print.

use super::address::Address;
use serde_json::{Map, Value};

/// The keys, and whether a key has a list, a number or a text.
const KEYS: [(&str, Shape); 14] = [
    ("dns.id", Shape::Number),
    ("dns.query", Shape::Text),
    ("dns.type", Shape::Text),
    ("dns.result", Shape::Text),
    ("dns.name", Shape::Text),
    ("dns.answers", Shape::List),
    ("http.request", Shape::Text),
    ("http.method", Shape::Text),
    ("http.target", Shape::Text),
    ("http.host", Shape::Text),
    ("http.response", Shape::Text),
    ("http.status", Shape::Number),
    ("tls.message", Shape::Text),
    ("tls.server_name", Shape::Text),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Number,
    Text,
    List,
}

/// The facts of one packet.
#[derive(Default)]
pub struct Facts {
    pub are_wanted: bool,
    found: Vec<(&'static str, String)>,
    /// The addresses in the answers of DNS.
    pub addresses: Vec<Address>,
}

impl Facts {
    pub fn wanted(are_wanted: bool) -> Self {
        Facts {
            are_wanted,
            ..Facts::default()
        }
    }

    pub fn clear(&mut self) {
        self.found.clear();
        self.addresses.clear();
    }

    /// Adds printed text.
    pub fn add(&mut self, key: &'static str, printed: &[u8]) {
        if self.are_wanted {
            let text = String::from_utf8_lossy(printed).into_owned();
            self.found.push((key, text));
        }
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        let mut found = self.found.iter();
        found.find(|(of, _)| *of == key).map(|(_, text)| &**text)
    }

    /// Removes what was added after the first `count`.
    pub fn truncate(&mut self, count: usize) {
        self.found.truncate(count);
        self.addresses.clear();
    }

    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Adds `{"dns": {"query": …}}` and so on. Of a text or a number that was found twice, the first is kept.
    pub fn add_to(&self, object: &mut Map<String, Value>) {
        for (key, shape) in KEYS {
            let mut values = self.found.iter().filter(|(of, _)| *of == key);
            let mut values = values.by_ref().map(|(_, text)| &**text).peekable();
            if values.peek().is_none() {
                continue;
            }
            let value = match shape {
                Shape::List => values.map(Value::from).collect(),
                Shape::Text => values.next().into(),
                Shape::Number => values.next().and_then(|it| it.parse::<u64>().ok()).into(),
            };
            let (protocol, name) = key.split_once('.').unwrap_or(("", key));
            let inner = object.entry(protocol).or_insert_with(|| Map::new().into());
            inner[name] = value;
        }
    }
}
