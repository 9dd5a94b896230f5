//! What the five texts claim, a row each: the text's figure, the figures of a run, and the measured reason.
//!
//! A reason is computed from named figures of the run ([`Claim::reason`]). Without one of them there is no reason: the row says
//! [`NOT_SHOWN`].

mod byte_stream;
mod circular_buffer;
mod claim;
mod descriptors;
mod driver;
mod two_copies;

pub use claim::{Claim, Figure, NOT_SHOWN, Verdict};

/// The texts, in the order in which the page has them: title and author.
pub const TEXTS: [(&str, &str); 5] = [
    (
        "Using black magic to make a fast circular buffer",
        "Travis Mick, 2017",
    ),
    ("CS 144 Checkpoint 0 – Byte Stream", "a student's notes"),
    ("A Tale of Two Copies", "Jeff Wendling, 2021"),
    (
        "Device Driver Queues",
        "chapter 18 of a book on data structures",
    ),
    (
        "The one with shrinking structure, part II",
        "a blog on packet processing, 2019",
    ),
];

/// Every claim.
pub fn all() -> Vec<Claim> {
    let texts = [
        circular_buffer::all(),
        byte_stream::all(),
        two_copies::all(),
        driver::all(),
        descriptors::all(),
    ];
    let numbered = texts.into_iter().enumerate();
    let claims = numbered.flat_map(|(text, claims)| {
        let of_text = move |claim| Claim { text, ..claim };
        claims.into_iter().map(of_text)
    });
    claims.collect()
}
