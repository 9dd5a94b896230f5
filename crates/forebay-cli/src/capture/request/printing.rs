//! How packets are printed.

use crate::{
    args::{self, Capture as Flags},
    print::{Columns, Dump, Form, Layout, Style, Times},
    usage::Usage,
};
use anyhow::Result;
use forebay_net::filter::read_services;

pub struct Printing {
    /// Without colours and names of interfaces: whether lines have them depends on standard output and on the sources.
    pub style: Style,
    pub layout: Layout,
    /// `None`: if standard output is a terminal, unless the user has turned colours off.
    pub has_colours: Option<bool>,
    /// Each line is written at once.
    pub at_once: bool,
}

impl Printing {
    /// `None`: no packet is printed.
    pub(super) fn from_flags(flags: &Flags, has_output: bool) -> Result<Option<Printing>> {
        let it = &flags.printing;
        let is_for_programs = it.is_for_programs();
        let prints = (it.print || is_for_programs || !has_output) && !it.only_count;
        if !prints {
            return Ok(None);
        }
        let layout = match it.json_lines {
            true => Layout::JsonLines,
            false if is_for_programs => {
                Layout::Rows(Columns::new(&it.fields, it.csv).map_err(Usage)?)
            }
            false => Layout::Lines,
        };
        if it.names {
            // The sandbox hides the file.
            read_services();
        }
        Ok(Some(Printing {
            style: Style {
                times: match is_for_programs {
                    true => Times::None,
                    false => Times::of_letters(it.times).unwrap_or_default(),
                },
                nanoseconds: it.time_stamp_precision == "nano",
                link_header: it.link_header,
                verbose: it.verbose.min(3),
                brief: flags.quiet,
                dump: dump(it),
                absolute_sequence: it.absolute_tcp_sequence_numbers,
                no_checksums: it.dont_verify_checksums,
                numbers: it.number && !is_for_programs,
                names: it.names,
                interfaces: false,
                colours: false,
            },
            layout,
            has_colours: match it.color.as_str() {
                "always" => Some(true),
                "never" => Some(false),
                _ => None,
            },
            at_once: it.line_buffered,
        }))
    }
}

/// The bytes to print after each line.
fn dump(flags: &args::Print) -> Dump {
    let forms = [
        (flags.hex, Form::Hex),
        (flags.hex_and_text, Form::HexAndText),
        (flags.text, Form::Text),
    ];
    let form = forms.into_iter().find(|(count, _)| *count > 0);
    form.map_or(Dump::default(), |(count, form)| Dump {
        form,
        with_link: count > 1,
    })
}
