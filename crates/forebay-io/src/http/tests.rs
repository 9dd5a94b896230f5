//! Responses in any cut, invalid responses, and redirects.

use super::{
    Fault, Head, HttpConfig, Url,
    chunked::Chunked,
    framing::Framing,
    limits::{HEAD_LIMIT_BYTES, HEAD_LIMIT_FIELDS},
    redirect::Trail,
    reply::{Part, Reply},
};
use proptest::prelude::*;

#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    status: Option<u16>,
    interims: usize,
    body: Vec<u8>,
    end: Option<Result<(), Fault>>,
}

/// Receives `pieces` in order, as `exchange` does.
fn receive<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let (mut reply, mut outcome, mut content) = (Reply::default(), Outcome::default(), Vec::new());
    for piece in pieces {
        content.extend_from_slice(piece);
        loop {
            let taken = match reply.next(&content) {
                Ok(Part::More) => break,
                Ok(Part::Interim(n)) => {
                    outcome.interims += 1;
                    n
                }
                Ok(Part::Head(n, head)) => {
                    outcome.status = Some(head.status);
                    n
                }
                Ok(Part::Framing(n)) => n,
                Ok(Part::Body(n)) => {
                    outcome.body.extend_from_slice(&content[..n]);
                    n
                }
                end @ (Ok(Part::End) | Err(_)) => {
                    outcome.end = Some(end.map(drop));
                    return outcome;
                }
            };
            content.drain(..taken);
        }
    }
    outcome.end = Some(reply.finish(content.len()));
    outcome
}

fn whole(answer: &[u8]) -> Outcome {
    receive([answer])
}

fn fault(answer: &str) -> Fault {
    whole(answer.as_bytes()).end.unwrap().unwrap_err()
}

fn chunked(chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut coded = Vec::new();
    for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
        coded.extend(format!("{:X};name=\"a;b\"\r\n", chunk.len()).bytes());
        coded.extend(chunk);
        coded.extend(b"\r\n");
    }
    coded.extend(b"00 \r\nTrailer: x\r\nAnother: y\r\n\r\n");
    coded
}

/// A body, and a response that contains it, framed by length, in chunks or by the connection's end.
fn answers(framings: std::ops::Range<u8>) -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let chunks = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6);
    (chunks, framings, any::<bool>()).prop_map(|(chunks, framing, interim)| {
        let body = chunks.concat();
        let mut answer = Vec::new();
        if interim {
            answer.extend(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
        }
        answer.extend(b"HTTP/1.1 200 OK\r\nServer: test\r\n");
        match framing {
            0 => answer.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes()),
            1 => answer.extend(b"Transfer-Encoding: Chunked\r\n\r\n"),
            _ => answer.extend(b"\r\n"),
        }
        match framing {
            1 => answer.extend(chunked(&chunks)),
            _ => answer.extend(&body),
        }
        (body, answer)
    })
}

/// Splits `bytes` into pieces that end at `cuts`.
fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn an_answer_is_the_same_in_any_cut(
        (body, answer) in answers(0..3),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let outcome = receive(pieces(&answer, &cuts));
        prop_assert_eq!(&outcome.body, &body);
        prop_assert_eq!(outcome.end.clone(), Some(Ok(())));
        prop_assert_eq!(outcome.status, Some(200));
        prop_assert_eq!(whole(&answer), outcome.clone());
        prop_assert_eq!(receive(answer.chunks(1)), outcome);
    }

    #[test]
    fn a_broken_answer_breaks_the_same_way_in_any_cut(
        (_, answer) in answers(0..3),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut answer = answer;
        let at = at.index(answer.len());
        answer[at] = byte;
        let (mut outcome, mut expected) = (receive(pieces(&answer, &cuts)), whole(&answer));
        for outcome in [&mut outcome, &mut expected] {
            if let Some(Err(Fault::NotHttp(begin))) = &mut outcome.end {
                begin.clear(); // shows the input so far
            }
        }
        prop_assert_eq!(outcome, expected);
    }

    #[test]
    fn an_answer_that_is_cut_is_never_taken_for_whole(
        (body, answer) in answers(0..2),
        at in any::<prop::sample::Index>(),
    ) {
        let outcome = whole(&answer[..at.index(answer.len())]);
        prop_assert!(body.starts_with(&outcome.body));
        let cut = matches!(outcome.end, Some(Err(Fault::CutHead(_) | Fault::CutBody { .. })));
        prop_assert!(cut, "{:?}", outcome);
    }
}

/// The framing of a response with these header fields.
fn framing(version: &str, fields: &str) -> Result<Framing, Fault> {
    let head = format!("HTTP/{version} 200 OK\r\n{fields}\r\n");
    Framing::of(&Head::parse(head.as_bytes()).unwrap())
}

#[test]
fn a_length_is_one_number_or_the_answer_is_refused() {
    let of = |fields: &str| framing("1.1", fields);
    assert_eq!(of("Content-Length: 42\r\n"), Ok(Framing::Length(42)));
    let thrice = of("Content-Length: 7, 7\r\ncontent-length:7\r\n");
    assert_eq!(thrice, Ok(Framing::Length(7)));
    let largest = of("Content-Length: 18446744073709551615\r\n");
    assert_eq!(largest, Ok(Framing::Length(u64::MAX)));
    for value in [
        "-1",
        "+1",
        "",
        "1 2",
        "0x10",
        "1,2",
        "1,",
        "18446744073709551616",
        "1e3",
    ] {
        let answer = of(&format!("Content-Length: {value}\r\n"));
        assert_eq!(answer, Err(Fault::BadLength(value.into())));
    }
    let two = of("Content-Length: 7\r\nContent-Length: 8\r\n");
    assert_eq!(two, Err(Fault::BadLength("7, 8".into())));
}

#[test]
fn an_encoding_is_chunked_and_alone_or_the_answer_is_refused() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    assert!(matches!(framing("1.1", chunked), Ok(Framing::Chunked(_))));
    let old = framing("1.0", chunked);
    assert_eq!(old, Err(Fault::BadEncoding("chunked".into())));
    let both = framing("1.1", &format!("Content-Length: 3\r\n{chunked}"));
    assert_eq!(both, Err(Fault::TwoFramings));
    for value in [
        "gzip, chunked",
        "chunked, chunked",
        "identity",
        "xchunked",
        "",
    ] {
        let answer = framing("1.1", &format!("Transfer-Encoding: {value}\r\n"));
        assert_eq!(answer, Err(Fault::BadEncoding(value.into())));
    }
}

#[test]
fn answers_without_a_body_end_with_their_head() {
    for status in ["204 No Content", "304 Not Modified"] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\nhello");
        let outcome = whole(answer.as_bytes());
        assert_eq!((outcome.body, outcome.end), (vec![], Some(Ok(()))));
    }
}

#[test]
fn hostile_chunks_are_refused() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let of = |coded: &str| fault(&format!("{head}{coded}"));
    for size in [
        "10000000000000000",
        "-1",
        "+1",
        "0x5",
        "",
        "g",
        "5 5",
        " 5",
        "5\n",
        "5\r5",
        ";a",
    ] {
        let answer = of(&format!("{size}\r\nhello\r\n0\r\n\r\n"));
        assert_eq!(answer, Fault::BadChunkSize, "{size:?}");
    }
    // The largest possible size is a valid size; the data it announces does not arrive.
    let cut = Fault::CutBody { came: 5, of: None };
    assert_eq!(of("ffffffffffffffff\r\nhello"), cut);
    assert_eq!(of("5\r\nhello, world\r\n"), Fault::BadChunkEnd);
    assert_eq!(of("5\r\nhello\n0\r\n\r\n"), Fault::BadChunkEnd);
    for line in [
        format!("{}1\r\n", "0".repeat(5000)),
        format!("1;{}\r\n", "x".repeat(5000)),
    ] {
        assert_eq!(of(&line), Fault::ChunkLineTooLong);
    }
    let trailers = "A: b\r\n".repeat(20_000);
    assert_eq!(of(&format!("0\r\n{trailers}")), Fault::TrailersTooLong);
    assert_eq!(of("0\r\nA: b\n\r\n"), Fault::BadTrailer);
    assert_eq!(of("0\r\n\r"), Fault::CutBody { came: 0, of: None });
}

#[test]
fn heads_are_bounded() {
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_LIMIT_BYTES));
    assert_eq!(fault(&long), Fault::HeadTooLong);
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n".repeat(HEAD_LIMIT_BYTES / 30);
    assert_eq!(fault(&hints), Fault::HeadTooLong);
    let fields = |n| format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(n));
    assert_eq!(fault(&fields(HEAD_LIMIT_FIELDS + 1)), Fault::TooManyFields);
    assert_eq!(
        whole(fields(HEAD_LIMIT_FIELDS).as_bytes()).status,
        Some(200)
    );
    // A head that fits exactly.
    let begin = "HTTP/1.1 200 OK\r\nA: ";
    let rest = "x".repeat(HEAD_LIMIT_BYTES - begin.len() - 4);
    let fitting = format!("{begin}{rest}\r\n\r\n");
    assert_eq!(whole(fitting.as_bytes()).status, Some(200));
}

#[test]
fn what_is_not_a_response_is_reported_at_once() {
    for (answer, line) in [
        ("SSH-2.0-x\r\nmore", "SSH-2.0-x"),
        ("HTTP/2 200\r\n\r\n", "HTTP/2 200"),
    ] {
        assert_eq!(fault(answer), Fault::NotHttp(line.into()));
    }
    for head in ["HTTP/1.1 nine", "HTTP/1.1 099 x", "HTTP/1.1 200 OK\r\nA b"] {
        let answer = fault(&format!("{head}\r\n\r\n"));
        assert!(matches!(answer, Fault::BadHead(_)), "{head}");
    }
    assert_eq!(fault("HTTP/1.1 101 x\r\n\r\n"), Fault::Switched);
    assert_eq!(fault(""), Fault::CutHead(0));
    assert_eq!(fault("HTTP/1.1 2"), Fault::CutHead(10));
}

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn sent_to(location: &str) -> Head {
    let head = format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\n\r\n");
    Head::parse(head.as_bytes()).unwrap()
}

#[test]
fn redirects_lead_where_their_location_says() {
    let mut trail = Trail::new(url("http://a:81/b/c?d"), &HttpConfig::default());
    let steps = [
        ("e", "http://a:81/b/e"),
        ("/f?g#h", "http://a:81/f?g"),
        ("//[::1]/i", "http://[::1]/i"),
        ("https://j/k", "https://j/k"),
        ("../l m", "https://j/l%20m"),
    ];
    for (number, (location, expected)) in steps.into_iter().enumerate() {
        assert!(trail.follow(&sent_to(location)).unwrap());
        assert_eq!(trail.current().to_string(), expected);
        assert_eq!(trail.redirects(), number + 1);
    }
}

#[test]
fn some_redirects_are_refused() {
    let refused = |from: &str, location: &str, config: &HttpConfig| {
        let mut trail = Trail::new(url(from), config);
        trail.follow(&sent_to(location)).unwrap_err().to_string()
    };
    let config = HttpConfig::default();
    for (from, location, expected) in [
        ("http://a/b", "/b#c", "in a loop, to http://a/b again"),
        ("https://a/b", "http://a/b", "redirected from https"),
        ("http://a/", "ftp://a/", "unsupported scheme 'ftp'"),
        ("http://a/", "http://u:p@a/", "a user name or password"),
    ] {
        let error = refused(from, location, &config);
        assert!(error.contains(expected), "{error}");
    }
    let none = HttpConfig {
        max_redirects: 0,
        ..config.clone()
    };
    assert!(refused("http://a/", "/b", &none).contains("after 0 redirects"));
    let mut trail = Trail::new(url("http://a/"), &config);
    let nowhere = Head::parse(b"HTTP/1.1 301 x\r\n\r\n").unwrap();
    assert!(trail.follow(&nowhere).is_err());
    let allowed = HttpConfig {
        allow_downgrade: true,
        ..config
    };
    let mut trail = Trail::new(url("https://a/b"), &allowed);
    assert!(trail.follow(&sent_to("http://a/b")).unwrap());
}

#[test]
fn urls_are_http_with_a_host_and_no_login() {
    for (text, host, target, is_secure) in [
        ("http://host", "host", "/", false),
        ("https://host:443/a", "host", "/a", true),
        ("http://HOST:81?q", "host:81", "/?q", false),
        ("http://h/a\r\nb c\u{e9}", "h", "/ab%20c%C3%A9", false),
    ] {
        let url = url(text);
        assert_eq!((&*url.host_field(), url.target()), (host, target));
        assert_eq!(url.is_secure(), is_secure, "{text}");
    }
    for text in [
        "host",
        "host:80/x",
        "http://",
        "http://u@h/",
        "http://:p@h/",
        "http://h:99999/",
    ] {
        assert!(text.parse::<Url>().is_err(), "{text}");
    }
    for secret in [
        "http://me:secret@h/",
        "http://me:secret@h:99999/",
        "ftp://me:secret@h/",
    ] {
        let error = secret.parse::<Url>().unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn references_resolve_as_in_the_examples_of_rfc_3986() {
    let base = url("http://a/b/c/d;p?q");
    // Section 5.4, without fragments; a reference to the same scheme without a host is relative, as the section permits.
    for (reference, expected) in [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g/"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q"),
        ("g#s", "http://a/b/c/g"),
        ("g?y#s", "http://a/b/c/g?y"),
        (";x", "http://a/b/c/;x"),
        ("g;x", "http://a/b/c/g;x"),
        ("g;x?y#s", "http://a/b/c/g;x?y"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("./", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../", "http://a/"),
        ("../../g", "http://a/g"),
        ("../../../g", "http://a/g"),
        ("../../../../g", "http://a/g"),
        ("/./g", "http://a/g"),
        ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."),
        (".g", "http://a/b/c/.g"),
        ("g..", "http://a/b/c/g.."),
        ("..g", "http://a/b/c/..g"),
        ("./../g", "http://a/b/g"),
        ("./g/.", "http://a/b/c/g/"),
        ("g/./h", "http://a/b/c/g/h"),
        ("g/../h", "http://a/b/c/h"),
        ("g;x=1/./y", "http://a/b/c/g;x=1/y"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/./x", "http://a/b/c/g?y/./x"),
        ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("g#s/./x", "http://a/b/c/g"),
        ("g#s/../x", "http://a/b/c/g"),
        ("http:g", "http://a/b/c/g"),
    ] {
        assert_eq!(base.join(reference).unwrap().to_string(), expected);
    }
    let error = base.join("g:h").unwrap_err().to_string();
    assert!(error.contains("unsupported scheme 'g'"), "{error}");
}

#[test]
fn addresses_are_read_as_browsers_read_them() {
    for (text, expected) in [
        (" \thttps:\\\\H\\a\\..\\%2E%2e/b\r\n/c ", "https://h/b/c"),
        ("http:h", "http://h/"),
        ("http:////h?a'b#c", "http://h/?a%27b"),
        ("http://@h:080", "http://h/"),
        ("http://h:/{`}?{`}|^", "http://h/%7B%60%7D?{`}|^"),
        ("http://h/%zz%41", "http://h/%zz%41"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://010.2.3.4./", "http://8.2.3.4/"),
        ("http://4294967295", "http://255.255.255.255/"),
        ("http://1e3.h.", "http://1e3.h./"),
        ("http://[1:0::0:2]:81/", "http://[1::2]:81/"),
    ] {
        assert_eq!(url(text).to_string(), expected, "{text}");
    }
    for (text, expected) in [
        ("http://b\u{fc}cher/", "letters that are not ASCII"),
        ("http://b%C3%BCcher/", "invalid domain character"),
        ("http://a b/", "invalid domain character"),
        ("http://4294967296/", "invalid IPv4 address"),
        ("http://1.2.3.4.5/", "invalid IPv4 address"),
        ("http://256.1.1.1/", "invalid IPv4 address"),
        ("http://a.09/", "invalid IPv4 address"),
        ("http://[::1/", "invalid IPv6 address"),
        ("http://[::1]x/", "invalid IPv6 address"),
        ("http://h:8o/", "invalid port number"),
        ("http:", "empty host"),
        ("/a", "relative URL without a base"),
    ] {
        let error = text.parse::<Url>().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_chunked_body_alternates_between_framing_and_data() {
    let mut chunked = Chunked::default();
    assert_eq!(chunked.framing(b"5\r\nhello\r\n"), Ok(3));
    assert_eq!(chunked.left(), 5);
    chunked.took(5);
    assert_eq!(chunked.framing(b"\r\n0\r\n\r\nmore"), Ok(7));
    assert!(chunked.is_done());
}
