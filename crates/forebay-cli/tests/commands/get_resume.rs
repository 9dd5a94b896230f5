//! `forebay get -C -`: what an interrupted fetch keeps, and what becomes of it. `-H`: fields of the user's.

use crate::server::{is_fine, serve, with_length};
use crate::support::*;
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{Arc, Mutex, mpsc},
    thread,
};

const TAG: &str = "ETag: \"1\"\r\n";

/// A server whose answers are taken from `answers`, one after another; and the requests that it got.
fn answers(answers: &[&str]) -> (std::net::SocketAddr, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (seen, mut left) = (requests.clone(), answers.to_vec());
    left.reverse();
    let left: Vec<_> = left.into_iter().map(str::to_owned).collect();
    let left = Mutex::new(left);
    let address = serve(move |client| {
        seen.lock().unwrap().push(client.request.clone());
        let answer = left.lock().unwrap().pop();
        client.send(answer.unwrap());
    });
    (address, requests)
}

fn cut(fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n{fields}\r\nhello")
}

const REST: &str =
    "HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\nContent-Range: bytes 5-8/9\r\n\r\n you";
const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello you";

#[test]
fn an_interrupted_fetch_goes_on_where_it_ended() {
    let (folder, path) = Folder::with("file");
    let (server, requests) = answers(&[&cut(TAG), REST]);
    let kept = format!("{path}.part keeps 5 bytes: the same command goes on from there");
    run!("get -C - -o {path} http://{server}/a?b").fails(1, &kept);
    assert_eq!(folder.names(), ["file.part", "file.part.version"]);
    let ran = run!("get -C - -o {path} http://{server}/a?b");
    is_fine(&ran, b"");
    contains(ran.log(), "4 bytes after the 5 of before, ");
    assert_eq!(fs::read(&path).unwrap(), b"hello you");
    assert_eq!(folder.names(), ["file"]);
    let requests = requests.lock().unwrap();
    lacks(&requests[0], "Range");
    contains(&requests[1], "\r\nRange: bytes=5-\r\nIf-Range: \"1\"\r\n");
}

#[test]
fn what_is_kept_counts_for_the_checksum_and_goes_if_that_is_wrong() {
    let sum = |bytes: &[u8]| {
        use sha2::Digest;
        let digest = sha2::Sha256::digest(bytes);
        digest
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let (folder, path) = Folder::with("file");
    let (server, _) = answers(&[&cut(TAG), REST, &cut(TAG), REST]);
    let get = |sum: &str| run!("get -C - --sha256 {sum} -o {path} http://{server}/");
    get(&sum(b"hello you")).fails(1, "keeps 5 bytes");
    is_fine(&get(&sum(b"hello you")), b"");
    assert_eq!(folder.names(), ["file"]);
    get(&sum(b"hello me")).fails(1, "keeps 5 bytes");
    get(&sum(b"hello me")).fails(1, "its SHA-256 is");
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn what_has_changed_is_fetched_anew() {
    let changed = "HTTP/1.1 416 X\r\nContent-Range: bytes */3\r\nContent-Length: 0\r\n\r\n";
    let other = REST.replace("Content-Range", "ETag: \"2\"\r\nContent-Range");
    let longer = REST.replace("5-8/9", "5-9/10").replace(": 4", ": 5") + "!";
    for second in [WHOLE, changed, &other, &longer] {
        let (folder, path) = Folder::with("file");
        let (server, requests) = answers(&[&cut(TAG), second, WHOLE]);
        let get = || run!("get -C - -o {path} http://{server}/");
        get().fails(1, "keeps 5 bytes");
        let ran = get();
        is_fine(&ran, b"");
        contains(ran.log(), "5 bytes are fetched again");
        assert_eq!(fs::read(&path).unwrap(), b"hello you");
        assert_eq!(folder.names(), ["file"]);
        let requests = requests.lock().unwrap();
        assert_eq!(requests.len(), if second == WHOLE { 2 } else { 3 });
    }
}

/// Without a tag, the date is the version: it must be much older than the answer.
const DATED: &str =
    "Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\nDate: Sat, 28 Nov 2026 12:00:00 GMT\r\n";

#[test]
fn a_date_is_compared_as_a_tag_is() {
    let part = |fields: &str| REST.replace("Content-Range", &format!("{fields}Content-Range"));
    let other = part(&DATED.replace("2022", "2023"));
    let without_range = "HTTP/1.1 416 X\r\nContent-Length: 0\r\n\r\n";
    for (second, anew) in [
        (&part(DATED)[..], false),
        (&other, true),
        (without_range, true),
    ] {
        let (folder, path) = Folder::with("file");
        let (server, requests) = answers(&[&cut(DATED), second, WHOLE]);
        let get = || run!("get -C - -o {path} http://{server}/");
        get().fails(1, "keeps 5 bytes");
        let ran = get();
        is_fine(&ran, b"");
        assert_eq!(ran.log().contains("are fetched again"), anew, "{second}");
        assert_eq!(fs::read(&path).unwrap(), b"hello you");
        assert_eq!(folder.names(), ["file"]);
        let requests = requests.lock().unwrap();
        contains(&requests[1], "If-Range: Sat, 01 Jan 2022 00:00:00 GMT\r\n");
    }
}

#[test]
fn an_answer_without_content_leaves_what_is_kept() {
    let (folder, path) = Folder::with("file");
    let (server, _) = answers(&[&cut(TAG), "HTTP/1.1 204 No Content\r\n\r\n", REST]);
    let get = || run!("get -C - -o {path} http://{server}/");
    get().fails(1, "keeps 5 bytes");
    get().fails(1, "no content (status 204)");
    is_fine(&get(), b"");
    assert_eq!(fs::read(&path).unwrap(), b"hello you");
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn of_two_fetches_of_one_file_at_once_the_second_leaves_the_first_alone() {
    let (folder, path) = Folder::with("file");
    let (go_on, waiting) = mpsc::channel::<()>();
    let waiting = Mutex::new(waiting);
    let server = serve(move |client| {
        client.send(cut(TAG));
        let _ = waiting.lock().unwrap().recv();
        client.send(" you");
    });
    let mut first = start!("get -C - -o {path} http://{server}/");
    while !Path::new(&format!("{path}.part.version")).exists() {
        assert_eq!(
            first.try_wait().unwrap(),
            None,
            "it ended before it had a part"
        );
        thread::yield_now();
    }
    run!("get -C - -o {path} http://{server}/").fails(1, "another process writes this file");
    go_on.send(()).unwrap();
    is_fine(&first.wait_with_output().unwrap(), b"");
    assert_eq!(fs::read(&path).unwrap(), b"hello you");
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn a_beginning_that_is_the_whole_is_complete() {
    let unknown =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{TAG}\r\n5\r\nhello\r\n");
    let whole = "HTTP/1.1 416 X\r\nContent-Range: bytes */5\r\nContent-Length: 3\r\n\r\nno!";
    let (folder, path) = Folder::with("file");
    let (server, _) = answers(&[&unknown, whole]);
    run!("get -C - -o {path} http://{server}/").fails(1, "keeps 5 bytes");
    is_fine(&run!("get -C - -o {path} http://{server}/"), b"");
    assert_eq!(fs::read(&path).unwrap(), b"hello");
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn answers_that_do_not_fit_change_nothing() {
    let ranges = [
        "bytes 4-8/9",
        "bytes 5-7/9",
        "bytes 5-8/*",
        "bytes */9",
        "lines 5-8/9",
        "bytes 5-18446744073709551615/9",
    ];
    let mut bad: Vec<_> = ranges
        .iter()
        .map(|range| REST.replace("bytes 5-8/9", range))
        .collect();
    bad.push(REST.replace("Content-Length: 4", "Content-Length: 40"));
    bad.push("HTTP/1.1 206 X\r\nContent-Length: 4\r\n\r\n you".into());
    let (folder, path) = Folder::with("file");
    let (server, _) = answers(&[&cut(TAG)]);
    let url = format!("http://{server}/");
    run!("get -C - -o {path} {url}").fails(1, "keeps 5 bytes");
    let version = fs::read_to_string(format!("{path}.part.version")).unwrap();
    for answer in &bad {
        let (server, _) = answers(&[answer]);
        let here = version.replace(&url, &format!("http://{server}/"));
        fs::write(format!("{path}.part.version"), here).unwrap();
        run!("get -C - -o {path} http://{server}/").fails(1, "What was kept is as it was");
        assert_eq!(
            fs::read(format!("{path}.part")).unwrap(),
            b"hello",
            "{answer}"
        );
        assert!(!folder.names().contains(&"file".into()));
    }
    // A range in chunks is known to fit only at its end.
    for (chunks, what) in [
        ("3\r\n yo\r\n0\r\n\r\n", "ends before its range"),
        ("5\r\n you!\r\n0\r\n\r\n", "longer than its range"),
    ] {
        let answer = REST
            .replace("Content-Length: 4", "Transfer-Encoding: chunked")
            .replace(" you", chunks);
        let (server, _) = answers(&[&answer]);
        fs::write(format!("{path}.part"), "hello").unwrap();
        let here = version.replace(&url, &format!("http://{server}/"));
        fs::write(format!("{path}.part.version"), here).unwrap();
        run!("get -C - -o {path} http://{server}/").fails(1, what);
        assert!(!folder.names().contains(&"file".into()));
    }
}

#[test]
fn without_a_version_nothing_is_kept() {
    for fields in [
        "",
        "ETag: W/\"1\"\r\n",
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
    ] {
        let (folder, path) = Folder::with("file");
        let (server, _) = answers(&[&cut(fields)]);
        let ran = run!("get -C - -o {path} http://{server}/");
        ran.fails(1, "removed again");
        contains(ran.log(), "no strong ETag");
        assert_eq!(folder.names(), [""; 0], "{fields}");
    }
    // Without -C -, a version is not looked at.
    let (folder, path) = Folder::with("file");
    let (server, _) = answers(&[&cut(TAG)]);
    run!("get -o {path} http://{server}/").fails(1, "removed again");
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn a_beginning_that_is_not_surely_ours_is_not_continued() {
    let version =
        |server| format!("forebay part 1\nhttp://{server}/\nhttp://{server}/\n\"1\"\n9\n");
    for prepare in ["link", "half", "other", "alone"] {
        let folder = Folder::new();
        let path = folder.path("file");
        let (server, requests) = answers(&[WHOLE]);
        let note = match prepare {
            "half" => "forebay part 1\nhttp://".into(),
            "other" => version(server).replace(&server.to_string(), "other"),
            _ => version(server),
        };
        match prepare {
            "link" => symlink(folder.file("victim", "hello"), format!("{path}.part")).unwrap(),
            _ => fs::write(format!("{path}.part"), "hello").unwrap(),
        }
        if prepare != "alone" {
            fs::write(format!("{path}.part.version"), note).unwrap();
        }
        let ran = run!("get -C - -o {path} http://{server}/");
        if prepare == "alone" {
            ran.fails(
                1,
                "file.part: is there, and it is not the beginning of an earlier fetch",
            );
            assert_eq!(fs::read(format!("{path}.part")).unwrap(), b"hello");
            continue;
        }
        is_fine(&ran, b"");
        assert_eq!(fs::read(&path).unwrap(), b"hello you");
        lacks(&requests.lock().unwrap()[0], "Range");
        if prepare == "link" {
            assert_eq!(fs::read(folder.path("victim")).unwrap(), b"hello");
        }
    }
}

#[test]
fn odd_requests_are_refused() {
    let (_folder, path) = Folder::with("file");
    run!("get -C 5 -o {path} http://localhost/").fails(2, "Use -C -");
    run!("get -C - http://localhost/").fails(2, "name it with -o");
    run!("get -C - -i -o {path} http://localhost/").fails(2, "cannot be used with");
    run!("get -C - -o /dev/null http://localhost/").fails(1, "is no regular file");
    for (field, what) in [
        ("secret", "has no colon"),
        ("Host: secret", "is set by forebay"),
        ("A b: secret", "is not a name"),
    ] {
        let ran = run!("get -H '{field}' http://localhost/");
        ran.fails(2, what);
        lacks(ran.log(), "secret");
    }
}

#[test]
fn fields_are_sent_and_secrets_stay_with_their_server() {
    let (other, of_other) = answers(&[text(&with_length(b"hello"))]);
    let moved =
        format!("HTTP/1.1 302 Found\r\nLocation: http://{other}/\r\nContent-Length: 0\r\n\r\n");
    let (server, of_server) = answers(&[&moved]);
    let ran =
        run!("get -q -H 'X-A: b c' -H 'Authorization: Bearer x' -H 'cookie:y=z' http://{server}/");
    is_fine(&ran, b"hello");
    let first = of_server.lock().unwrap()[0].clone();
    for field in ["X-A: b c", "Authorization: Bearer x", "cookie: y=z"] {
        contains(&first, format!("\r\n{field}\r\n"));
    }
    let second = of_other.lock().unwrap()[0].to_lowercase();
    contains(&second, "\r\nx-a: b c\r\n");
    lacks(&second, "authorization");
    lacks(&second, "cookie");
}
