//! `--follow`: what the two ends of a TCP connection sent to each other.

use super::stream::{Piece, Stream};
use crate::{
    args::End,
    flow::{Flow, Packet, tcp, tcp_payload},
    output::write_whole,
    print::{Text, hex::characters},
};
use forebay_net::port::LinkType;
use std::{fs::File, io};

/// Follows the first connection that it sees.
pub struct Follower {
    output: File,
    /// Only what this end sent, byte for byte.
    raw: Option<End>,
    flow: Option<Flow>,
    streams: [Stream; 2],
    /// The end that sent what was written last, and whether that ended a line.
    last: Option<(usize, bool)>,
    is_over: bool,
    /// Bytes that are missing in what was written.
    pub missing: u64,
    /// Segments of other connections.
    pub others: u64,
    pub failed: Option<io::Error>,
}

impl Follower {
    pub fn new(output: File, raw: Option<End>) -> Self {
        Follower {
            output,
            raw,
            flow: None,
            streams: Default::default(),
            last: None,
            is_over: false,
            missing: 0,
            others: 0,
            failed: None,
        }
    }

    /// Whether there was a connection.
    pub fn has_followed(&self) -> bool {
        self.flow.is_some()
    }

    pub fn see(&mut self, link: LinkType, data: &[u8]) {
        let packet = Packet::of(link, data);
        let Some(segment) = packet.segment else {
            return;
        };
        let is_other = *self.flow.get_or_insert(packet.flow) != packet.flow;
        let from = usize::from(packet.is_back);
        let begins = segment.flags & tcp::SYN != 0;
        if !is_other && begins {
            self.is_over |= self.streams[from].is_another(segment.sequence);
        }
        if is_other || self.is_over {
            self.others += 1;
            return;
        }
        let mut pieces = Vec::new();
        if segment.flags & tcp::ACK != 0 {
            self.streams[1 - from].acknowledged(segment.acknowledged, &mut pieces);
            self.write(1 - from, &mut pieces);
        }
        let sequence = segment.sequence.wrapping_add(u32::from(begins));
        let ends = segment.flags & tcp::FIN != 0;
        let payload = tcp_payload(link, data).unwrap_or_default();
        let payload = if segment.flags & tcp::RESET != 0 {
            &[]
        } else {
            payload
        };
        self.streams[from].data(sequence, payload, ends, &mut pieces);
        self.write(from, &mut pieces);
    }

    /// Segments of the wanted ends that are too far ahead to be believed.
    pub fn ignored(&self) -> u64 {
        let ends = self.streams.iter().enumerate();
        let wanted = ends.filter(|(from, _)| self.raw.is_none_or(|end| end as usize == *from));
        wanted.map(|(_, stream)| stream.ignored).sum()
    }

    /// What still waits.
    pub fn finish(&mut self) {
        for from in 0..2 {
            let mut pieces = Vec::new();
            self.streams[from].finish(&mut pieces);
            self.write(from, &mut pieces);
        }
        if self.raw.is_none() && matches!(self.last, Some((_, false))) {
            self.put(b"\n");
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.failed.is_none()
            && let Err(error) = write_whole(&self.output, bytes)
        {
            self.failed = Some(error);
        }
    }

    fn write(&mut self, from: usize, pieces: &mut Vec<Piece>) {
        let is_wanted = self.raw.is_none_or(|end| end as usize == from);
        for piece in pieces.drain(..).filter(|_| is_wanted) {
            let mut out = Text::default();
            if let Piece::Gap(len) = piece {
                self.missing += len;
            }
            match (piece, self.raw) {
                (Piece::Data(data), Some(_)) => drop(out.raw(&data)),
                (Piece::Gap(_), Some(_)) => {}
                (piece, None) => {
                    self.head(from, &mut out);
                    match piece {
                        Piece::Data(data) => characters(&data, &mut out),
                        Piece::Gap(len) => drop(out.put("\n[").num(len).put(" bytes missing]\n")),
                    }
                    self.last = Some((from, out.bytes().ends_with(b"\n")));
                }
            }
            self.put(out.bytes());
        }
    }

    /// Names the end that sends, if it is another one than before.
    fn head(&self, from: usize, out: &mut Text) {
        let (last, ended_line) = self.last.unzip();
        if last == Some(from) {
            return;
        }
        let ends = self.flow.unwrap_or_default().to_string();
        let (a, b) = ends.split_once(" - ").unwrap_or_default();
        let (sender, receiver) = if from == 0 { (a, b) } else { (b, a) };
        out.put(if ended_line == Some(false) { "\n" } else { "" });
        out.put("--- ")
            .put(sender)
            .put(" > ")
            .put(receiver)
            .put("\n");
    }
}
