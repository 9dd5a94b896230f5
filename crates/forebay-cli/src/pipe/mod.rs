//! `forebay pipe`: from flags to a pipe, and from its summary to lines and an exit code.

mod line;
mod request;
mod screen;

use crate::{
    args::Pipe as Flags,
    output,
    signals::{self, Asked},
};
use anyhow::Result;
use forebay_net::pipe::{Control, Pipe};
pub use line::Layout;
pub use request::Fields;
use request::Request;
use screen::Screen;
use std::process::ExitCode;

pub fn run(flags: &Flags) -> Result<ExitCode> {
    let request = Request::from_flags(flags)?;
    let mut screen = Screen::new(&request);
    let control = Control::new()?;
    let inputs = request.open_inputs(&screen)?;
    let outputs = request.open_outputs(&screen)?;
    let config = request.config(screen.is_shown());
    let pipe = Pipe::open(inputs, outputs, config, control.clone())?;
    // Until here a signal ends us, as it does anyone: nothing is read yet, and others may be waited for.
    signals::listen(&[Asked::Report], move |asked| match asked {
        // What keeps us now is a write that waits, to a terminal or a disk, and hears nobody.
        Asked::Stop if control.is_abandoned() => std::process::exit(1),
        Asked::Stop => control.stop(),
        Asked::Report => control.report(),
        Asked::Flush | Asked::Rotate => {}
    })?;
    output::start(request.force)?;
    screen.expect(request.size, pipe.bytes());
    let summary = pipe.run(&mut |progress| screen.show(progress));
    screen.end(&summary);
    Ok(ExitCode::from(u8::from(!summary.is_fine())))
}
