//! `forebay pipe`: turns flags into a pipe, and its summary into text and an exit code.

mod request;
mod screen;
mod watch;

use crate::{
    args::Pipe as Flags,
    output, privileges,
    sandbox::{self, Needs},
    signals::{self, Asked},
};
use anyhow::Result;
use forebay_io::pipe::{Control, Pipe};
use request::Request;
use screen::Screen;
use std::process::ExitCode;

pub fn run(flags: &Flags) -> Result<ExitCode> {
    if let Some((pid, fd)) = flags.watched {
        return watch::run(flags, pid, fd);
    }
    let mut request = Request::from_flags(flags)?;
    let mut screen = Screen::new(flags);
    let control = Control::new()?;
    let inputs = request.open_inputs(&screen)?;
    let outputs = request.open_outputs(&screen)?;
    // To make the names of the outputs durable.
    let needs = Needs::default().reading(request.folders());
    if !screen.is_shown() {
        request.config.progress_every = None;
    }
    let pipe = Pipe::open(inputs, outputs, request.config, control.clone())?;
    privileges::shed(None)?;
    sandbox::enter(&flags.sandbox, &needs);
    // Until here signals end the process as usual: nothing is read yet, and the open of an input or output may block.
    signals::listen(&[Asked::Report], move |asked| match asked {
        // Only a write to a terminal or disk can still block, and it cannot be interrupted otherwise.
        Asked::Stop if control.is_abandoned() => std::process::exit(1),
        Asked::Stop => control.stop(),
        Asked::Report => control.report(),
        _ => {}
    })?;
    output::start(flags.force)?;
    screen.expect(flags.size, pipe.bytes());
    let summary = pipe.run(&mut |progress| screen.show(progress));
    screen.end(&summary);
    Ok(ExitCode::from(u8::from(!summary.is_fine())))
}
