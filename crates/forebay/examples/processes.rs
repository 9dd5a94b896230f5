//! One process sends numbers to another, kills it with SIGKILL in the middle, and starts a second one: no number is lost, and the
//! one that was being worked on arrives again, marked. `cargo run --release -p forebay --example processes`
use forebay::queue::shared::{self, SharedQueueConfig};
use std::{env, error::Error, process, thread::sleep, time::Duration};

const NAME: &str = "example-processes";

fn main() -> Result<(), Box<dyn Error>> {
    if env::args().nth(1).is_some() {
        return receive();
    }
    let start = || {
        process::Command::new(env::current_exe()?)
            .arg("receive")
            .spawn()
    };
    let queue = shared::create(NAME, &SharedQueueConfig::default())?;
    let (sender, mut first) = (queue.sender(), start()?);
    for number in 0..200_u32 {
        sender.send(number.to_le_bytes())?;
    }
    sleep(Duration::from_millis(100));
    first.kill()?;
    first.wait()?;
    let mut second = start()?;
    sender.close();
    second.wait()?;
    Ok(shared::remove(NAME)?)
}

fn receive() -> Result<(), Box<dyn Error>> {
    for message in &shared::attach(NAME)?.receiver() {
        let number = u32::from_le_bytes((*message).try_into()?);
        let again = message.is_redelivered();
        println!("{}: {number}, again: {again}", process::id());
        sleep(Duration::from_millis(1)); // the work; dropping the message reports it as processed
    }
    Ok(())
}
