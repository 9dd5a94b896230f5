//! `forebay get` over TLS: which certificates it trusts, and what it accepts as the end of an answer.

use crate::server::{is_fine, serve, serve_bytes, serve_self_signed, serve_tls, with_length};
use crate::support::*;
use std::{io::Write, net::TcpListener};

#[test]
fn tls_trusts_the_root_it_is_given_and_no_other() {
    let body = noise(3_000_000);
    let answer = with_length(&body);
    let (server, root) = serve_tls("localhost", move |client| client.send(&answer));
    let folder = Folder::new();
    let path = folder.file("root.pem", root);
    let url = |host: &str| format!("https://{host}:{}/", server.port());
    is_fine(&run!("get --cacert {path} {}", url("localhost")), &body);
    let untrusted = "the server's certificate is not signed by a trusted authority";
    run!("get {}", url("localhost")).fails(1, untrusted);
    let other_name = "the server's certificate is not for 127.0.0.1, only for ";
    run!("get --cacert {path} {}", url("127.0.0.1")).fails(1, other_name);
    folder.file("root.pem", "nothing");
    run!("get --cacert {path} {}", url("localhost")).fails(1, "contains no certificate");
    let none = folder.path("none.pem");
    run!("get --cacert {none} {}", url("localhost")).fails(1, "no such file");
}

#[test]
fn a_self_signed_certificate_is_trusted_if_it_is_exactly_the_one_that_was_named() {
    let serve = |name: &str| {
        let answer = with_length(b"own");
        serve_self_signed(name, |_| {}, move |client| client.send(&answer))
    };
    let folder = Folder::new();
    let (server, own) = serve("localhost");
    let path = folder.file("own.pem", own);
    let url = |host: &str| format!("https://{host}:{}/", server.port());
    is_fine(&run!("get --cacert {path} {}", url("localhost")), b"own");
    // The name still has to be right.
    run!("get --cacert {path} {}", url("127.0.0.1")).fails(1, "not for 127.0.0.1, only for ");
    // Another one, also for that name, is not trusted.
    let (_, another) = serve("localhost");
    folder.file("own.pem", another);
    for ran in [
        run!("get --cacert {path} {}", url("localhost")),
        run!("get {}", url("localhost")),
    ] {
        ran.fails(1, "is that of a certificate authority");
        ran.fails(1, "give it with --cacert");
    }
}

#[test]
fn a_self_signed_certificate_that_was_named_still_has_dates_and_names() {
    type Change = fn(&mut rcgen::CertificateParams);
    let cases: [(Change, &str); 3] = [
        (
            |it| it.not_after = rcgen::date_time_ymd(2002, 1, 1),
            "the server's certificate has expired",
        ),
        (
            |it| it.not_before = rcgen::date_time_ymd(4000, 1, 1),
            "the server's certificate is not valid yet",
        ),
        (
            |it| it.subject_alt_names.clear(),
            "it names no host. It needs a subjectAltName",
        ),
    ];
    for (change, expected) in cases {
        let (server, own) = serve_self_signed("127.0.0.1", change, |_| ());
        let folder = Folder::new();
        let path = folder.file("own.pem", own);
        run!("get --cacert {path} https://{server}/").fails(1, expected);
    }
}

#[test]
fn a_server_without_tls_is_distinguished_from_one_with_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"SSH-2.0-x\r\n").unwrap();
        client
    });
    let expected = "negotiating TLS with the server: the server does not speak TLS";
    run!("get {url}").fails(1, expected);
    server.join().unwrap();
}

#[test]
fn over_tls_a_body_that_ends_with_the_connection_needs_a_proper_close() {
    let (server, root) = serve_tls("127.0.0.1", |client| {
        client.send("HTTP/1.1 200 OK\r\n\r\nhello");
        if client.path() == "/cut" {
            client.cut();
        }
    });
    let folder = Folder::new();
    let path = folder.file("root.pem", root);
    is_fine(&run!("get --cacert {path} https://{server}/"), b"hello");
    let ran = run!("get --cacert {path} https://{server}/cut");
    ran.fails(1, "may be truncated: 5 bytes arrived");
    ran.fails(1, "closed the connection without ending TLS properly");
    assert_eq!(ran.stdout, b"hello");
}

#[test]
fn a_redirect_out_of_tls_is_only_followed_on_request() {
    let plain = serve_bytes(with_length(b"plain"));
    let (server, root) = serve_tls("127.0.0.1", move |client| {
        client.send(format!(
            "HTTP/1.1 302 Found\r\nLocation: http://{plain}/\r\n\r\n"
        ));
    });
    let folder = Folder::new();
    let path = folder.file("root.pem", root);
    let url = format!("https://{server}/");
    run!("get --cacert {path} {url}").fails(1, "redirected from https");
    let followed = run!("get --cacert {path} --allow-downgrade {url}");
    is_fine(&followed, b"plain");
}

/// A proxy that passes on what follows `CONNECT`, to `server` whatever was asked for, and answers other requests itself.
fn proxy(server: std::net::SocketAddr) -> std::net::SocketAddr {
    serve(move |client| {
        if !client
            .request
            .starts_with("CONNECT example.test:443 HTTP/1.1\r\nHost: example.test:443\r\n")
        {
            let asked = client.request.lines().next().unwrap().to_owned();
            return client.send(with_length(asked.as_bytes()));
        }
        client.send("HTTP/1.1 200 Connection established\r\n\r\n");
        let mut there = std::net::TcpStream::connect(server).unwrap();
        let (mut from, mut to) = (
            client.socket.try_clone().unwrap(),
            there.try_clone().unwrap(),
        );
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let _ = std::io::copy(&mut there, &mut client.socket);
        client.cut();
    })
}

#[test]
fn a_proxy_gets_whole_addresses_and_passes_on_tls_that_it_cannot_read() {
    let answer = with_length(b"secret");
    let (server, root) = serve_tls("example.test", move |client| client.send(&answer));
    let folder = Folder::new();
    let path = folder.file("root.pem", root);
    let proxy = proxy(server);
    let get = |variables: &[(&str, &str)], line: &str| {
        let mut command = forebay!("get {line}");
        command.envs(variables.iter().copied()).output().unwrap()
    };
    let address = &*proxy.to_string();
    let secure = format!("-q --cacert {path} https://example.test/");
    is_fine(&get(&[("HTTPS_PROXY", address)], &secure), b"secret");
    let all = &*format!("http://{proxy}/");
    is_fine(&get(&[("ALL_PROXY", all)], &secure), b"secret");
    let plain = "-q http://example.test:8080/a?b";
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy"] {
        let asked = b"GET http://example.test:8080/a?b HTTP/1.1";
        is_fine(&get(&[(name, address)], plain), asked);
    }
    // Lower case first; a program that a web server started does not use what its client may have set.
    for more in [
        ("http_proxy", "127.0.0.1:1"),
        ("no_proxy", ".test"),
        ("REQUEST_METHOD", "GET"),
    ] {
        let ran = get(&[("HTTP_PROXY", address), more], plain);
        assert!(!ran.status.success(), "{more:?}: {}", ran.text());
    }
    is_fine(
        &get(
            &[("http_proxy", "127.0.0.1:1")],
            &format!("-q http://{address}/here"),
        ),
        b"GET /here HTTP/1.1",
    );
    // A proxy that cannot be used is an error only where it is needed.
    let ran = get(&[("http_proxy", "socks5://x")], plain);
    ran.fails(1, "the proxy of http_proxy cannot be used");
    ran.fails(1, "unsupported scheme 'socks5'");
    let unusable = ("ALL_PROXY", "http://me:secret@x");
    let ran = get(&[unusable], plain);
    ran.fails(1, "the proxy of ALL_PROXY cannot be used");
    lacks(ran.log(), "secret");
    is_fine(
        &get(&[unusable], &format!("-q {address}/here")),
        b"GET /here HTTP/1.1",
    );
    is_fine(
        &get(&[unusable, ("HTTPS_PROXY", address)], &secure),
        b"secret",
    );
}

#[test]
fn a_proxy_that_refuses_or_lies_is_an_error() {
    for (answer, expected) in [
        (
            "HTTP/1.1 407 Login\r\n\r\n",
            "it wants a login (status 407)",
        ),
        (
            "HTTP/1.1 502 Bad Gateway\r\n\r\n",
            "it refuses (status 502 Bad Gateway)",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nmore", "more than an answer"),
        ("SSH-2.0-x\r\n\r\n", "not an HTTP/1 response"),
        ("HTTP/1.1 200 OK\r\n", "connecting through the proxy"),
    ] {
        let proxy = serve(move |client| {
            client.send(answer);
            client.cut();
        });
        let mut command = forebay!("get https://example.test/");
        let ran = command
            .env("https_proxy", proxy.to_string())
            .output()
            .unwrap();
        ran.fails(1, expected);
    }
}
