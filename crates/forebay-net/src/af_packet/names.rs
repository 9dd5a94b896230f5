//! Finds an interface by the name that a user typed, and suggests names if there is none.

use crate::{link::Link, spelling::nearest};
use forebay::{Error, Result, error::Code};

/// The name for all interfaces together, unless an interface has this name.
pub(super) const ANY: &str = "any";

/// Returns the interface `name`.
pub(crate) fn find<'a>(links: &'a [Link], name: &str) -> Result<&'a Link> {
    if let Some(link) = links.iter().find(|link| link.name == name) {
        return Ok(link);
    }
    let mut text = format!("no interface '{name}'; there are: {}", all(links));
    let names = links.iter().map(|link| link.name.as_str());
    if let Some(near) = nearest(names.chain([ANY, "sim"]), name) {
        text += &format!(" (did you mean {near}?)");
    }
    Err(Error::coded(Code::NotFound, "", text))
}

fn all(links: &[Link]) -> String {
    let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
    match names.as_slice() {
        [] => "sim".into(),
        some => format!("{}, {ANY}, and sim", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(names: &[&str]) -> Vec<Link> {
        let link = |&name: &&str| Link {
            name: name.into(),
            ..Link::default()
        };
        names.iter().map(link).collect()
    }

    #[test]
    fn a_wrong_name_gets_a_list_and_a_guess() {
        let here = links(&["lo", "eth0", "veth1"]);
        let text = |name| find(&here, name).unwrap_err().to_string();
        let known = "there are: lo, eth0, veth1, any, and sim";
        assert_eq!(
            text("etho"),
            format!("no interface 'etho'; {known} (did you mean eth0?)")
        );
        assert!(text("eht0").ends_with("(did you mean eth0?)"));
        assert_eq!(text("wlan0"), format!("no interface 'wlan0'; {known}"));
        let error = find(&links(&["lo"]), "l").unwrap_err().to_string();
        assert!(
            error.ends_with("lo, any, and sim (did you mean lo?)"),
            "{error}"
        );
        assert_eq!(find(&here, "veth1").unwrap().name, "veth1");
    }
}
