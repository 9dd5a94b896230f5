//! How packets are printed.

use crate::{
    args::{self, Capture as Flags},
    print::{Dump, Form, Style, Times},
};

pub struct Printing {
    /// Without colours and names of interfaces: whether lines have them depends on standard output and on the sources.
    pub style: Style,
    /// One JSON object a packet.
    pub is_json: bool,
    /// `None`: if standard output is a terminal, unless the user has turned colours off.
    pub has_colours: Option<bool>,
    /// Each line is written at once.
    pub at_once: bool,
}

impl Printing {
    /// `None`: no packet is printed.
    pub(super) fn from_flags(flags: &Flags, has_output: bool) -> Option<Printing> {
        let it = &flags.printing;
        let prints = (it.print || it.json_lines || !has_output) && !it.only_count;
        prints.then(|| Printing {
            style: Style {
                times: match it.json_lines {
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
                numbers: it.number && !it.json_lines,
                interfaces: false,
                colours: false,
            },
            is_json: it.json_lines,
            has_colours: match it.color.as_str() {
                "always" => Some(true),
                "never" => Some(false),
                _ => None,
            },
            at_once: it.line_buffered,
        })
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
