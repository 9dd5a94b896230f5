//! Worker processes report to a hub that does not trust them: one crashes, which ends only its own lane.
//! `cargo run --release -p forebay --features lanes --example reports`
//! With a path as its argument, it listens there for workers that other programs start, also in C, C++ and Python.
use forebay::queue::lanes::{Hub, LanesConfig, RecvError, Sender};
use std::{env, error::Error, os::unix::net::UnixListener, path::Path, process, time::Duration};

const WORKERS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments[..] {
        [] => hub(
            &env::temp_dir().join(format!("reports-{}", process::id())),
            true,
        ),
        [socket] => hub(socket.as_ref(), false),
        [socket, number, ..] => work(socket, number),
    }
}

fn hub(socket: &Path, starts_workers: bool) -> Result<(), Box<dyn Error>> {
    let listener = UnixListener::bind(socket)?;
    println!("listening at {}", socket.display());
    let hub = Hub::new(&LanesConfig::default())?;
    for number in 0..WORKERS {
        if starts_workers {
            process::Command::new(env::current_exe()?)
                .arg(socket)
                .arg(number.to_string())
                .spawn()?;
        }
        let peer = hub.accept_timeout(listener.accept()?.0, Duration::from_secs(30))?;
        println!("{peer} is connected");
    }
    std::fs::remove_file(socket)?;
    let (mut buffer, mut ended) = ([0; 100], 0);
    while ended < WORKERS {
        match hub.recv(&mut buffer) {
            Ok(got) => {
                let report = String::from_utf8_lossy(&buffer[..got.len]);
                println!("{}: {report}", got.peer);
            }
            Err(RecvError::Ended { peer, ending, .. }) => {
                println!("{peer} is gone: {ending}");
                ended += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn work(socket: &str, worker: &str) -> Result<(), Box<dyn Error>> {
    let mut sender = Sender::attach(std::os::unix::net::UnixStream::connect(socket)?, 4096)?;
    for number in 0..5 {
        sender.send(format!("task {number} of worker {worker} is done"))?;
        if worker == "1" && number == 2 {
            process::abort();
        }
    }
    Ok(())
}
