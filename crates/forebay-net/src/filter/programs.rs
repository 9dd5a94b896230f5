//! The programs of one filter for files with several link types, each compiled when it is first needed.

use super::{
    Error, Filter, View,
    bpf::{Instruction, Program, code},
};
use crate::port::{Frame, Interface, LinkType};
use std::{collections::HashMap, sync::Arc};

/// The result for a match: the whole packet. Callers only distinguish 0 from other values.
const ALL: u32 = 262_144;

/// The programs of one filter, by link type.
///
/// If the filter makes no sense for a link type (`vlan` on raw IP), none of its packets match: a file may contain interfaces
/// that the filter was not written for.
///
/// ```
/// use forebay_net::{filter::Programs, port::{Interface, LinkType}};
/// let mut programs = Programs::new("vlan 5".parse()?);
/// let raw = Interface { link: LinkType::RAW, ..Interface::default() };
/// assert!(programs.check(&[raw.clone(), Interface::default()]).is_ok());
/// assert!(programs.check(&[raw]).is_err()); // it suits none of them
/// assert_eq!(programs.of(LinkType::RAW).run(&[0x45; 60], 60), 0);
/// # Ok::<(), forebay_net::filter::Error>(())
/// ```
#[derive(Debug)]
pub struct Programs {
    filter: Filter,
    by_link: HashMap<(u16, View), Result<Arc<Program>, Error>>,
}

impl Programs {
    /// Creates the programs of `filter`, without compiling any yet.
    pub fn new(filter: Filter) -> Self {
        Programs {
            filter,
            by_link: HashMap::new(),
        }
    }

    fn compiled(&mut self, link: LinkType, view: View) -> &Result<Arc<Program>, Error> {
        let compile = || self.filter.compile(link, view, ALL).map(Arc::new);
        self.by_link.entry((link.0, view)).or_insert_with(compile)
    }

    fn seen(&mut self, link: LinkType, view: View) -> Arc<Program> {
        match self.compiled(link, view) {
            Ok(program) => program.clone(),
            Err(_) => Arc::new(nothing()),
        }
    }

    /// The program for packets of this link type in a file.
    pub fn of(&mut self, link: LinkType) -> Arc<Program> {
        self.seen(link, View::Packet)
    }

    /// The program for frames of this interface.
    pub fn of_interface(&mut self, interface: &Interface) -> FrameProgram {
        FrameProgram {
            program: self.seen(interface.link, View::of(interface)),
            view: View::of(interface),
            link: interface.link,
        }
    }

    /// Checks that packets of at least one of these interfaces can match. No interfaces are also accepted.
    ///
    /// # Errors
    /// The error for the first interface for which the filter [makes sense](Error::matches_nothing), or else for the first
    /// interface.
    pub fn check(&mut self, interfaces: &[Interface]) -> Result<(), Error> {
        let mut first: Option<Error> = None;
        for interface in interfaces {
            let Err(error) = self.compiled(interface.link, View::of(interface)) else {
                return Ok(());
            };
            if first
                .as_ref()
                .is_none_or(|first| !first.matches_nothing && error.matches_nothing)
            {
                first = Some(error.clone());
            }
        }
        first.map_or(Ok(()), Err)
    }
}

/// A program for the frames of one interface.
#[derive(Clone, Debug)]
pub struct FrameProgram {
    program: Arc<Program>,
    view: View,
    link: LinkType,
}

impl FrameProgram {
    /// Whether it is also the program of this interface.
    #[inline]
    pub(crate) fn is_of(&self, interface: &Interface) -> bool {
        self.link == interface.link && self.view == View::of(interface)
    }

    /// Whether the frame matches the filter.
    #[inline]
    pub fn accepts(&self, frame: &Frame<'_>) -> bool {
        let kept = match self.view {
            View::Restored => self.program.run_restored(frame, self.link),
            _ => self.program.run(frame.data, frame.wire_len),
        };
        kept > 0
    }
}

/// The program that rejects every packet.
fn nothing() -> Program {
    let reject = vec![Instruction::new(code::RET_K, 0)];
    Program::new(reject).expect("a return is a program")
}
