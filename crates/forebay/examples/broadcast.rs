//! Publishes the lines of standard input to three processes. One is too slow, and reports exactly how many lines it lost.
//! `seq 100000 | cargo run --release -p forebay --example broadcast`
use forebay::ring::broadcast::{BroadcastConfig, Producer, Reader, RecvError};
use std::{env, error::Error, io, os::fd::AsFd, process, thread::sleep, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(pause) = env::args().nth(1) {
        return read(Duration::from_micros(pause.parse()?));
    }
    let mut producer = Producer::new(&BroadcastConfig::default())?;
    let start = |pause| {
        let memory = producer.memory().try_clone_to_owned()?; // over a Unix socket if the reader is not a child
        let program = env::current_exe()?;
        process::Command::new(program)
            .arg(pause)
            .stdin(memory)
            .spawn()
    };
    let readers = [start("0")?, start("0")?, start("1000")?];
    sleep(Duration::from_millis(100)); // readers start at the next message
    for line in io::stdin().lines() {
        producer.publish(&[line?.as_bytes()])?;
        producer.wake(); // one call for several messages would do
    }
    drop(producer); // closes the ring
    readers
        .into_iter()
        .try_for_each(|mut reader| reader.wait().map(drop))?;
    Ok(())
}

fn read(pause: Duration) -> Result<(), Box<dyn Error>> {
    let mut reader = Reader::attach(io::stdin().as_fd().try_clone_to_owned()?)?;
    let mut buffer = vec![0; reader.largest()];
    loop {
        match reader.recv_timeout(&mut buffer, Duration::from_secs(5)) {
            Ok(_) => sleep(pause),
            Err(RecvError::Overrun { lost }) => println!("{}: {lost} lines lost", process::id()),
            Err(end) => break println!("{}: {end}; {:?}", process::id(), reader.stats()),
        }
    }
    Ok(())
}
