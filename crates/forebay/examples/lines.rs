//! Parses lines from a stream that another thread writes: each line is seen in place, wherever it lies.
//! `seq 1000000 | cargo run --release -p forebay --example lines`
use forebay::stream::stream;
use std::{
    error::Error,
    io::{self, BufRead},
    thread,
};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut writer, mut reader) = stream(64 << 10)?;
    let input = thread::spawn(move || {
        let copied = io::copy(&mut io::stdin(), &mut writer);
        writer.close();
        copied
    });
    let (mut lines, mut sum) = (0_u64, 0_u64);
    loop {
        let bytes = reader.fill_buf()?;
        let Some(last) = bytes.iter().rposition(|&byte| byte == b'\n') else {
            let seen = bytes.len();
            if reader.wait_filled(seen + 1) <= seen {
                break; // the end, or a line longer than the buffer
            }
            continue;
        };
        for line in bytes[..last].split(|&byte| byte == b'\n') {
            lines += 1;
            sum += std::str::from_utf8(line)?.parse::<u64>().unwrap_or(0);
        }
        reader.consume(last + 1);
    }
    drop(reader); // ends the input, too
    let bytes = input.join().expect("the input thread does not panic")?;
    println!("{bytes} bytes, {lines} lines, sum {sum}");
    Ok(())
}
