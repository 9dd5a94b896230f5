//! `forebay get` over TLS: which certificates it trusts, and what it accepts as the end of an answer.

use fetch::{fails, get, is_fine, with_length};
use server::{serve_bytes, serve_self_signed, serve_tls};
use std::{fs, io::Write, net::TcpListener};
use support::{Folder, dice::noise};

#[path = "support/fetch.rs"]
mod fetch;
#[path = "support/server.rs"]
mod server;
mod support;

#[test]
fn tls_trusts_the_root_it_is_given_and_no_other() {
    let body = noise(3_000_000);
    let answer = with_length(&body);
    let (server, root) = serve_tls("localhost", move |client| client.send(&answer));
    let folder = Folder::new();
    let path = folder.path("root.pem");
    fs::write(&path, root).unwrap();
    let url = |host: &str| format!("https://{host}:{}/", server.port());
    is_fine(&get(&["--cacert", &path, &url("localhost")]), &body);
    fails(
        &get(&[&url("localhost")]),
        1,
        "the server's certificate is not signed by a trusted authority",
    );
    fails(
        &get(&["--cacert", &path, &url("127.0.0.1")]),
        1,
        "the server's certificate is not for 127.0.0.1, only for ",
    );
    fs::write(&path, "nothing").unwrap();
    fails(
        &get(&["--cacert", &path, &url("localhost")]),
        1,
        "contains no certificate",
    );
    let none = folder.path("none.pem");
    fails(
        &get(&["--cacert", &none, &url("localhost")]),
        1,
        "no such file",
    );
}

#[test]
fn a_self_signed_certificate_is_trusted_if_it_is_exactly_the_one_that_was_named() {
    let serve = |name: &str| {
        let answer = with_length(b"own");
        serve_self_signed(name, |_| {}, move |client| client.send(&answer))
    };
    let folder = Folder::new();
    let path = folder.path("own.pem");
    let (server, own) = serve("localhost");
    let url = |host: &str| format!("https://{host}:{}/", server.port());
    fs::write(&path, &own).unwrap();
    is_fine(&get(&["--cacert", &path, &url("localhost")]), b"own");
    // The name still has to be right.
    let other_name = get(&["--cacert", &path, &url("127.0.0.1")]);
    fails(&other_name, 1, "not for 127.0.0.1, only for ");
    // Another one, also for that name, is not trusted.
    let (_, another) = serve("localhost");
    fs::write(&path, another).unwrap();
    for ran in [
        get(&["--cacert", &path, &url("localhost")]),
        get(&[&url("localhost")]),
    ] {
        fails(&ran, 1, "is that of a certificate authority");
        fails(&ran, 1, "give it with --cacert");
    }
}

#[test]
fn a_self_signed_certificate_that_was_named_still_has_dates_and_names() {
    let folder = Folder::new();
    let path = folder.path("own.pem");
    let nothing = |_: &mut server::Client| {};
    let expire = |params: &mut rcgen::CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    };
    let (server, own) = serve_self_signed("127.0.0.1", expire, nothing);
    fs::write(&path, own).unwrap();
    let ran = get(&["--cacert", &path, &format!("https://{server}/")]);
    fails(&ran, 1, "the server's certificate has expired");
    let early = |params: &mut rcgen::CertificateParams| {
        params.not_before = rcgen::date_time_ymd(4000, 1, 1);
    };
    let (server, own) = serve_self_signed("127.0.0.1", early, nothing);
    fs::write(&path, own).unwrap();
    let ran = get(&["--cacert", &path, &format!("https://{server}/")]);
    fails(&ran, 1, "the server's certificate is not valid yet");
    let nameless = |params: &mut rcgen::CertificateParams| params.subject_alt_names.clear();
    let (server, own) = serve_self_signed("127.0.0.1", nameless, nothing);
    fs::write(&path, own).unwrap();
    let ran = get(&["--cacert", &path, &format!("https://{server}/")]);
    fails(&ran, 1, "it names no host. It needs a subjectAltName");
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
    fails(
        &get(&[&url]),
        1,
        "negotiating TLS with the server: the server does not speak TLS",
    );
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
    let path = folder.path("root.pem");
    fs::write(&path, root).unwrap();
    is_fine(
        &get(&["--cacert", &path, &format!("https://{server}/")]),
        b"hello",
    );
    let ran = get(&["--cacert", &path, &format!("https://{server}/cut")]);
    fails(&ran, 1, "may be truncated: 5 bytes arrived");
    fails(&ran, 1, "closed the connection without ending TLS properly");
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
    let path = folder.path("root.pem");
    fs::write(&path, root).unwrap();
    let url = format!("https://{server}/");
    fails(&get(&["--cacert", &path, &url]), 1, "redirected from https");
    is_fine(
        &get(&["--cacert", &path, "--allow-downgrade", &url]),
        b"plain",
    );
}
