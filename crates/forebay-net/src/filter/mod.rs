//! Filters: libpcap's language, compiled to BPF and run here or in the kernel.
//!
//! ```text
//!  "tcp port 80 or 443"
//!    │ token.rs, words.rs: words and their places
//!    ▼ parse.rs, primitive.rs, wifi.rs, id.rs, arithmetic.rs; names.rs looks up names
//!  Filter (ast.rs)                        once, for any link type
//!    │ compile/, link.rs                   tree.rs: its tests of flows, for lookups in an index
//!    ▼
//!  Program (bpf/)                         for one link type; runs here, or in the kernel
//! ```
//!
//! The language is that of pcap-filter(7). A program accepts the same packets as that of libpcap 1.10.3, with these exceptions:
//!
//! - **Truncated packets.** A program rejects a packet that ends before a byte that the program loads. Programs of libpcap load some
//!   bytes whose values they do not need; `compile/optimize.rs` removes more of these loads. So a packet that is cut before such a
//!   byte may be accepted here and rejected by libpcap.
//! - **`protochain`** passes up to 16 extension headers, without a loop, so the kernel runs it too. libpcap loses its place after an
//!   authentication header, and may then loop forever.
//! - **`tcp`, `proto 6` and ports** also match after the hop-by-hop header of BIG TCP over IPv6. libpcap does not look beyond it. A packet that was cut
//!   within this header is rejected.
//! - **`byte 8 & 5` and `byte 8 | 5`** test the byte here. libpcap forgets to load it.
//!
//! Not supported are ATM, SS7, logs of `pf`, `gateway` and `ip broadcast`. They are rejected with an error that points at the
//! word.

mod arithmetic;
mod ast;
pub mod bpf;
mod compile;
mod error;
mod id;
#[cfg(test)]
mod layer_tests;
mod link;
mod names;
mod parse;
mod primitive;
mod programs;
mod qualifiers;
#[cfg(test)]
mod tests;
mod token;
pub mod tree;
mod view;
mod wifi;
mod words;

pub use error::Error;
pub use programs::{FrameProgram, Programs};

use crate::port::LinkType;
use bpf::Program;
use names::Names;
pub use names::{read_services, service_name};
use std::{str::FromStr, sync::Arc};
pub use view::View;

/// A parsed expression; cheap to clone. `"".parse()` accepts every packet.
///
/// Parsing looks up each name once: host names through the system's resolver (possibly over the network), other names in
/// `/etc`.
///
/// | limit of an expression | |
/// |---|---|
/// | length | 256 KiB |
/// | nesting | 100 levels |
/// | instructions of its program | 65,535; 4,096 if the kernel runs it |
///
/// ```
/// use forebay_net::{filter::{Filter, View}, port::LinkType};
///
/// let filter: Filter = "udp dst port 53 or 5353".parse()?;
/// let program = filter.compile(LinkType::ETHERNET, View::Packet, 262_144)?;
///
/// let mut frame = [0; 60];
/// (frame[12], frame[14], frame[23]) = (0x08, 0x45, 17);
/// frame[36..38].copy_from_slice(&5353_u16.to_be_bytes());
/// assert_eq!(program.run(&frame, 60), 262_144);
/// frame[37] = 80;
/// assert_eq!(program.run(&frame, 60), 0);
/// # Ok::<(), forebay_net::filter::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Filter(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    text: String,
    expression: Option<ast::Expr>,
}

impl FromStr for Filter {
    type Err = Error;

    /// # Errors
    /// The text is not an expression, or contains an unknown name.
    fn from_str(text: &str) -> Result<Filter, Error> {
        Filter::parse(text, &Names::of_system())
    }
}

impl Filter {
    /// The filter of an empty text, which accepts every packet.
    pub(crate) fn everything() -> Filter {
        Filter(Arc::new(Parsed {
            text: String::new(),
            expression: None,
        }))
    }

    /// As [`parse`](str::parse), but without resolving host names, so every host name is unknown. For text from untrusted
    /// sources.
    ///
    /// ```
    /// use forebay_net::filter::Filter;
    /// assert!(Filter::without_hosts("host 10.0.0.1 and port https").is_ok());
    /// assert!(Filter::without_hosts("host example.com").is_err());
    /// ```
    ///
    /// # Errors
    /// As [`from_str`](Filter::from_str).
    pub fn without_hosts(text: &str) -> Result<Filter, Error> {
        Filter::parse(text, &Names::asking(|_| Vec::new()))
    }

    fn parse(text: &str, names: &Names) -> Result<Filter, Error> {
        let expression = parse::parse(text, names).map_err(|wrong| wrong.in_text(text))?;
        let text = text.to_owned();
        Ok(Filter(Arc::new(Parsed { text, expression })))
    }

    /// Compiles the program for packets of a link type. It keeps `snaplen` bytes of a matching packet; `snaplen` must be greater
    /// than 0.
    ///
    /// # Errors
    /// * A test cannot apply to this link type, or to this view.
    /// * No packet can match (`ip and ip6`).
    /// * The program would be longer than the kernel accepts ([`Program::MOST`], for [`View::Socket`]), or longer than
    ///   [`Program::MAX_LEN`].
    ///
    /// ```
    /// use forebay_net::{filter::{Filter, View}, port::LinkType};
    /// let filter: Filter = "ip and vlan 5".parse()?;
    /// let error = filter.compile(LinkType::RAW, View::Packet, 65_535).unwrap_err();
    /// assert_eq!(error.what(), "'vlan' is not supported on link type RAW (raw IP)");
    /// assert_eq!(error.span(), 7..13);
    /// # Ok::<(), forebay_net::filter::Error>(())
    /// ```
    pub fn compile(&self, link: LinkType, view: View, snaplen: u32) -> Result<Program, Error> {
        self.compiled(link, view, snaplen, false)
    }

    /// As [`compile`](Filter::compile), for packets of an additional link type that the expression was not written for. A test that
    /// cannot apply to them (`ether host` on raw IP) is false, so its negation is true. If no packet can match, the program
    /// rejects every packet.
    ///
    /// # Errors
    /// The program would be too long, as for [`compile`](Filter::compile).
    ///
    /// ```
    /// use forebay_net::{filter::{Filter, View}, port::LinkType};
    /// let filter: Filter = "not ether broadcast".parse()?;
    /// let beside = filter.compile_beside(LinkType::RAW, View::Packet, 65_535)?;
    /// assert_eq!(beside.run(&[0x45; 60], 60), 65_535);
    /// # Ok::<(), forebay_net::filter::Error>(())
    /// ```
    pub fn compile_beside(
        &self,
        link: LinkType,
        view: View,
        snaplen: u32,
    ) -> Result<Program, Error> {
        self.compiled(link, view, snaplen, true)
    }

    fn compiled(
        &self,
        link: LinkType,
        view: View,
        snaplen: u32,
        untold_is_false: bool,
    ) -> Result<Program, Error> {
        let expression = self.0.expression.as_ref();
        let program = compile::compile(expression, link, view, snaplen, untold_is_false);
        program.map_err(|wrong| wrong.in_text(&self.0.text))
    }

    /// The text of the expression.
    pub fn text(&self) -> &str {
        &self.0.text
    }
}
