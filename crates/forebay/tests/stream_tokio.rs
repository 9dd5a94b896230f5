//! Streams between tasks of a real runtime, and between a task and a thread.

use forebay::{
    stream::{Reader, StreamConfig, Writer, stream_with},
    sync::Task,
};
use std::io::ErrorKind;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

fn made(capacity_bytes: usize) -> (Writer<Task>, Reader<Task>) {
    let config = StreamConfig {
        capacity_bytes,
        ..StreamConfig::default()
    };
    stream_with(&config).unwrap()
}

fn numbered(n: u32) -> Vec<u8> {
    (0..n).map(|i| (i ^ i >> 8) as u8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_byte_arrives_between_tasks_through_any_capacity() {
    for capacity in [1, 15, 4096, 100_000] {
        let (mut writer, mut reader) = made(capacity);
        let bytes = numbered(if capacity == 1 { 5_000 } else { 200_000 });
        let sent = bytes.clone();
        let task = tokio::spawn(async move {
            for part in sent.chunks(1500) {
                writer.write_all(part).await.unwrap();
            }
            writer.flush().await.unwrap();
            writer.shutdown().await.unwrap();
            assert!(writer.is_closed());
        });
        let mut received = Vec::new();
        assert_eq!(
            reader.read_to_end(&mut received).await.unwrap(),
            bytes.len()
        );
        assert!(received == bytes);
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_thread_feeds_a_task() {
    let (mut writer, mut reader) = made(100);
    let thread = std::thread::spawn(move || {
        for i in 0..2000 {
            let line = format!("line {i}\n");
            assert_eq!(writer.push_all(line.as_bytes()), line.len());
        }
        writer.close();
    });
    let mut line = String::new();
    for i in 0..2000 {
        line.clear();
        reader.read_line(&mut line).await.unwrap();
        assert_eq!(line, format!("line {i}\n"));
    }
    assert_eq!(reader.read_line(&mut line).await.unwrap(), 0);
    thread.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_meets_the_end_that_the_other_side_made() {
    let (mut writer, mut reader) = made(8);
    let task = tokio::spawn(async move {
        let mut all = Vec::new();
        let error = reader.read_to_end(&mut all).await.unwrap_err();
        (all, error.kind())
    });
    writer.write_all(b"abc").await.unwrap();
    drop(writer);
    assert_eq!(
        task.await.unwrap(),
        (b"abc".to_vec(), ErrorKind::UnexpectedEof)
    );

    let (mut writer, reader) = made(2);
    let task = tokio::spawn(async move { writer.write_all(b"abc").await.unwrap_err().kind() });
    tokio::task::yield_now().await;
    drop(reader);
    assert_eq!(task.await.unwrap(), ErrorKind::BrokenPipe);

    let (mut writer, mut reader) = made(8);
    writer.set_error();
    assert_eq!(reader.read_u8().await.unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(
        writer.write(b"a").await.unwrap_err().kind(),
        ErrorKind::Other
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_between_tasks() {
    let (mut question, mut questions) = made(1);
    let (mut answer, mut answers) = made(1);
    let echo = tokio::spawn(async move {
        while let Ok(byte) = questions.read_u8().await {
            answer.write_u8(!byte).await.unwrap();
        }
    });
    for i in 0..20_000 {
        question.write_u8(i as u8).await.unwrap();
        assert_eq!(answers.read_u8().await.unwrap(), !(i as u8));
    }
    drop(question);
    echo.await.unwrap();
}
