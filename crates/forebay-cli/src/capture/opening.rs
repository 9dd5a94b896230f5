//! Everything before the first packet, in the order that privileges, memory and signals need.

use super::{
    on_files::{Helper, Runner},
    operate::Sockets,
    request::Request,
    sharing::Sharing,
    threads::PerThread,
};
use crate::{
    notify::Manager,
    output,
    sandbox::Sandbox,
    signals::{self, Asked},
};
use anyhow::Result;
use forebay_net::session::{Control, Session};

/// A capture whose ports are not open yet: what it needs besides them is there.
pub struct Prepared {
    request: Request,
    helper: Option<Helper>,
    manager: Manager,
    control: Control,
    sockets: Sockets,
    sharing: Option<Sharing>,
}

/// A capture that packets arrive for, and that takes none yet.
pub struct Opened {
    pub request: Request,
    pub manager: Manager,
    pub control: Control,
    pub sockets: Sockets,
    pub sharing: Option<Sharing>,
    pub sandbox: Sandbox,
    pub session: Session,
    /// The sessions of the other threads.
    pub per_thread: Option<PerThread>,
    pub runner: Option<Runner>,
}

/// Starts the helper of `-z`, and binds names and sockets.
///
/// # Errors
/// One of them is refused or in use, or there is too little memory.
pub fn prepare(mut request: Request) -> Result<Prepared> {
    let program = request.program.as_deref();
    let helper = program.map(|program| Helper::start(program, request.user.as_ref()));
    let helper = helper.transpose()?;
    let manager = Manager::connect()?;
    let control = Control::new()?;
    let sockets = Sockets::bind(&mut request)?;
    // Before the interfaces are opened: clearing gigabytes takes a while, and packets would wait in the kernel.
    let sharing = Sharing::bind(&mut request)?;
    Ok(Prepared {
        request,
        helper,
        manager,
        control,
        sockets,
        sharing,
    })
}

impl Prepared {
    /// Opens the ports and the session. From here on, signals end the capture and not the process.
    ///
    /// # Errors
    /// A port or the output cannot be opened, or there are no more threads.
    pub fn open(self) -> Result<Opened> {
        let Prepared {
            request,
            helper,
            manager,
            control,
            sockets,
            mut sharing,
        } = self;
        let (ports, sandbox) = request.open_ports(helper.as_ref().map(Helper::group))?;
        let mut config = request.session.clone();
        if let Some(every) = manager.progress_every() {
            config.progress_every = config.progress_every.min(every);
        }
        let publisher = sharing.as_mut().and_then(Sharing::take_publisher);
        let (session, per_thread) = request.sessions(ports, config, &control, publisher)?;
        // Until here signals end the process as usual: nothing is captured yet, and the open of a FIFO without a reader may block.
        listen(&request, &control, &manager)?;
        // From here on packets arrive, and no thread waits for a reader of the printed text.
        output::start(false)?;
        let runner = helper.map(Helper::listen).transpose()?;
        Ok(Opened {
            request,
            manager,
            control,
            sockets,
            sharing,
            sandbox,
            session,
            per_thread,
            runner,
        })
    }
}

/// Lets signals control the capture.
fn listen(request: &Request, control: &Control, manager: &Manager) -> Result<()> {
    let (heard, informed) = (control.clone(), manager.clone());
    let mut wanted = vec![Asked::Report, Asked::Flush];
    wanted.extend(request.recorder.is_some().then_some(Asked::Trigger));
    wanted.extend(request.rotation.is_some().then_some(Asked::Rotate));
    signals::listen(&wanted, move |asked| match asked {
        Asked::Stop => {
            heard.stop();
            informed.stopping();
        }
        Asked::Report => heard.report(),
        Asked::Flush => heard.flush(),
        Asked::Rotate => heard.rotate(),
        Asked::Trigger => {
            heard.trigger();
        }
        Asked::Suspend | Asked::Resume => {}
    })
}
