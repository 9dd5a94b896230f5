//! Filters: libpcap's language, compiled to BPF, run here or handed to the kernel.
//!
//! ```text
//!  "tcp port 80 or 443"
//!    │ token.rs, words.rs: words and their places
//!    ▼ parse.rs, primitive.rs, id.rs, arithmetic.rs; names.rs asks the system
//!  Filter (ast.rs)                        once, for any link type
//!    │ compile/, link.rs
//!    ▼
//!  Program (bpf/)                         for one link type; runs here, or in the kernel
//! ```
//!
//! The language is that of pcap-filter(7), and a program gives the verdicts of libpcap 1.10.3, also on
//! packets that end before what is asked for, unless it does not matter there. What is left out
//! (802.11, ATM, SS7, logs of `pf`, `gateway`, `ip broadcast`, `protochain`) is refused by an error
//! that points at the word. It imports `port`, for link types. Read on in `parse.rs` and [`bpf`].

mod arithmetic;
mod ast;
pub mod bpf;
mod compile;
mod error;
mod id;
mod link;
mod names;
mod parse;
mod primitive;
mod programs;
#[cfg(test)]
mod tests;
mod token;
mod words;

pub use error::Error;
pub use programs::Programs;

use crate::port::LinkType;
use bpf::Program;
use names::Names;
use std::{str::FromStr, sync::Arc};

/// An expression understood; cheap to clone. `"".parse()` accepts everything.
///
/// Names are looked up when it is parsed, each once: hosts as the system does (possibly over the
/// network), the rest in `/etc`. An expression may have 256 KiB, and nest 100 deep.
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

/// What a program sees of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Packets as they lie in files and come from `sim`: VLAN tags are in the data.
    Packet,
    /// As the kernel shows them to a socket's filter on Linux: the outer VLAN tag, the direction and
    /// the interface lie beside the data.
    Socket,
}

impl FromStr for Filter {
    type Err = Error;

    /// # Errors
    /// The text is no expression, or has a name that is not known.
    fn from_str(text: &str) -> Result<Filter, Error> {
        Filter::parse(text, &Names::of_system())
    }
}

impl Filter {
    /// As [`parse`](str::parse), but asks nobody about host names, so none is known: for text that
    /// comes from strangers.
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

    /// The program for packets of a link type. Of what matches it keeps `snaplen` bytes, which is
    /// more than 0.
    ///
    /// # Errors
    /// Something in it cannot be told on this link type, or from this view; or no packet can match
    /// (`ip and ip6`); or the program would be longer than the kernel takes ([`Program::MOST`]).
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

    /// The same for packets of a further link type beside one that it was written for: what cannot be told of them (`ether host`
    /// on raw IP) does not hold, so `not` that holds. Where nothing can match it is the program that keeps nothing.
    ///
    /// # Errors
    /// The program would be longer than the kernel takes.
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

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.0.text
    }
}
