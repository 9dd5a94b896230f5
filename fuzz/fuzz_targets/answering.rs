//! What the target checks: any bytes are an answer or a fault, and the same one however they are cut; pieces never exceed what
//! was shown; a body whose length is known has that length. The first byte determines how the others are cut.

use forebay_io::http::{Fault, Part, Reply};

#[derive(Debug, Default, PartialEq)]
struct Told {
    status: Option<u16>,
    /// Bytes that were not body.
    other_bytes: usize,
    body: Vec<u8>,
    fault: Option<Fault>,
}

fn receive<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Told {
    let (mut reply, mut told, mut content) = (Reply::default(), Told::default(), Vec::new());
    for piece in pieces {
        content.extend_from_slice(piece);
        loop {
            let part = match reply.next(&content) {
                Ok(part) => part,
                Err(fault) => {
                    // What depends on the cut: the bytes shown of what is no answer, and how much framing was passed over
                    // in front of the fault.
                    told.fault = Some(match fault {
                        Fault::NotHttp(_) => Fault::NotHttp(String::new()),
                        other => other,
                    });
                    told.other_bytes = 0;
                    return told;
                }
            };
            let taken = match part {
                Part::More => break,
                Part::End => {
                    assert!(reply.finish(content.len()).is_ok());
                    return told;
                }
                Part::Head(n, head) => {
                    assert!(told.status.is_none() && head.status >= 200 && n > 0);
                    told.status = Some(head.status);
                    told.other_bytes += n;
                    n
                }
                Part::Interim(n) | Part::Framing(n) => {
                    assert!(n > 0);
                    told.other_bytes += n;
                    n
                }
                Part::Body(n) => {
                    assert!(n > 0 && told.status.is_some());
                    told.body.extend_from_slice(&content[..n]);
                    n
                }
            };
            content.drain(..taken);
        }
    }
    told.fault = reply.finish(content.len()).err();
    assert_eq!(reply.body_bytes(), told.body.len() as u64);
    if told.fault.is_none() {
        let length = reply.body_length();
        assert!(length.is_none_or(|length| length == told.body.len() as u64));
    }
    told
}

pub fn check(bytes: &[u8]) {
    let Some((&size, answer)) = bytes.split_first() else {
        return;
    };
    let told = receive([answer].into_iter());
    assert!(told.other_bytes + told.body.len() <= answer.len());
    assert_eq!(receive(answer.chunks(size as usize + 1)), told);
}
