//! The link types of interfaces.

use crate::{link::Link, port::LinkType};
use forebay::{Error, Result, error::Code};

/// The link type of frames from this interface.
///
/// # Errors
/// Its hardware type is not supported.
pub fn link_type(link: &Link) -> Result<LinkType> {
    match link.hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Ok(LinkType::ETHERNET),
        libc::ARPHRD_NONE => Ok(LinkType::RAW),
        other => Err(Error::coded(
            Code::Unsupported,
            &link.name,
            format!("its hardware type {other} is not supported"),
        )
        .advise("Supported are Ethernet (1), loopback (772) and raw IP (65534)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_that_is_not_supported_is_named() {
        let of = |hardware| {
            link_type(&Link {
                name: "can0".into(),
                hardware,
                ..Link::default()
            })
        };
        assert_eq!(of(1).unwrap(), LinkType::ETHERNET);
        assert_eq!(of(772).unwrap(), LinkType::ETHERNET);
        assert_eq!(of(65_534).unwrap(), LinkType::RAW);
        let text = of(280).unwrap_err().to_string();
        assert_eq!(
            text,
            "can0: its hardware type 280 is not supported. Supported are Ethernet (1), loopback (772) and raw IP (65534)"
        );
    }
}
