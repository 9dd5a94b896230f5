//! As the example `lines`, in tokio tasks, with tokio's own way to read lines.
//! `seq 1000000 | cargo run --release -p forebay --features tokio --example lines_tokio`
use forebay::{
    stream::{StreamConfig, stream_with},
    sync::Task,
};
use std::error::Error;
use tokio::io::{AsyncBufReadExt, copy, stdin};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (mut writer, reader) = stream_with::<Task>(&StreamConfig::default())?;
    let input = tokio::spawn(async move {
        let copied = copy(&mut stdin(), &mut writer).await;
        writer.close();
        copied
    });
    let (mut lines, mut count, mut sum) = (reader.lines(), 0_u64, 0_u64);
    while let Some(line) = lines.next_line().await? {
        count += 1;
        sum += line.parse::<u64>().unwrap_or(0);
    }
    let bytes = input.await??;
    println!("{bytes} bytes, {count} lines, sum {sum}");
    Ok(())
}
