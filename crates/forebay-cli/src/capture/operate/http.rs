//! Just enough of HTTP to be scraped: one request, one response, and the connection is closed.

use super::metrics::MetricsFormat;
use std::{
    net::{Ipv4Addr, Ipv6Addr},
    str,
};

/// Longest head of a request.
pub const MAX_HEAD: usize = 8 << 10;

const PAGE: &str = "forebay capture. The metrics are at /metrics\n";

/// What a client asked for.
#[derive(Debug, PartialEq)]
pub enum HttpRequest {
    /// More bytes are needed.
    Incomplete,
    Metrics {
        form: MetricsFormat,
        /// Without the text itself.
        only_head: bool,
        /// The program that asks, or nothing.
        agent: Vec<u8>,
    },
    /// The whole response.
    Other(Vec<u8>),
}

/// `is_local`: only requests that name this machine are answered.
pub fn parse(bytes: &[u8], is_local: bool) -> HttpRequest {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return HttpRequest::Incomplete,
        Ok(httparse::Status::Complete(_)) => {}
        _ => {
            return refused(
                "400 Bad Request",
                "not a request of HTTP/1.1, or too long\n",
            );
        }
    }
    let only_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return refused("405 Method Not Allowed", "only GET and HEAD are answered\n"),
    };
    let mut headers = request.headers.iter();
    let host = headers.find(|header| header.name.eq_ignore_ascii_case("host"));
    if is_local && host.is_some_and(|host| !is_this_machine(host.value)) {
        let text = "the Host of a request has to be localhost or an IP address\n";
        return refused("403 Forbidden", text);
    }
    let path = request.path.unwrap_or_default();
    match path.split('?').next() {
        Some("/metrics") => {}
        Some("/") => return HttpRequest::Other(response("200 OK", "text/plain", PAGE, only_head)),
        _ => return refused("404 Not Found", "the metrics are at /metrics\n"),
    }
    let accepts_open = request.headers.iter().any(|header| {
        let value = str::from_utf8(header.value).unwrap_or_default();
        header.name.eq_ignore_ascii_case("accept") && value.contains("application/openmetrics-text")
    });
    let form = if accepts_open {
        MetricsFormat::Open
    } else {
        MetricsFormat::Plain
    };
    let mut headers = request.headers.iter();
    let agent = headers.find(|header| header.name.eq_ignore_ascii_case("user-agent"));
    HttpRequest::Metrics {
        form,
        only_head,
        agent: agent.map_or(Vec::new(), |header| header.value.into()),
    }
}

/// Whether the value of `Host` is `localhost` or an IP address, with or without a port.
fn is_this_machine(host: &[u8]) -> bool {
    let host = str::from_utf8(host).unwrap_or_default().trim();
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let number = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok()
        || number.is_some_and(|it| it.parse::<Ipv6Addr>().is_ok())
}

fn refused(status: &str, text: &str) -> HttpRequest {
    HttpRequest::Other(response(status, "text/plain", text, false))
}

pub fn response(status: &str, content_type: &str, text: &str, only_head: bool) -> Vec<u8> {
    let body = if only_head { "" } else { text };
    let len = text.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(bytes: &[u8]) -> String {
        match parse(bytes, false) {
            HttpRequest::Other(response) => String::from_utf8(response).unwrap(),
            request => panic!("{request:?}"),
        }
    }

    #[test]
    fn a_scrape_gets_the_format_that_it_accepts() {
        let plain = HttpRequest::Metrics {
            form: MetricsFormat::Plain,
            only_head: false,
            agent: Vec::new(),
        };
        let open = HttpRequest::Metrics {
            form: MetricsFormat::Open,
            only_head: true,
            agent: b"curl/8".into(),
        };
        assert_eq!(
            parse(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", false),
            plain
        );
        assert_eq!(parse(b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", true), plain);
        let head = b"HEAD /metrics HTTP/1.1\r\nUser-agent: curl/8\r\naccept: application/openmetrics-text;q=0.8\r\n\r\n";
        assert_eq!(parse(head, true), open);
        for len in 0..head.len() {
            assert_eq!(parse(&head[..len], true), HttpRequest::Incomplete);
        }
    }

    #[test]
    fn everything_else_is_answered_and_bounded() {
        assert!(other(b"\x16\x03\x01\x02\0\x01\0").starts_with("HTTP/1.1 400 "));
        assert!(other(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(other(b"GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(other(b"GET / HTTP/1.1\r\n\r\n").ends_with("/metrics\n"));
        let long = format!("GET /{} HTTP/1.1", "x".repeat(MAX_HEAD));
        assert!(other(long.as_bytes()).starts_with("HTTP/1.1 400 "));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
        assert!(other(many.as_bytes()).starts_with("HTTP/1.1 400 "));
    }

    #[test]
    fn a_name_that_leads_to_this_machine_is_not_enough() {
        let answers = |host: &str| {
            let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
            matches!(parse(request.as_bytes(), true), HttpRequest::Metrics { .. })
        };
        for host in [
            "localhost",
            "LocalHost:9870",
            "127.0.0.1:9870",
            "[::1]:9870",
            "[::1]",
        ] {
            assert!(answers(host), "{host}");
        }
        for host in [
            "evil.example:9870",
            "localhost.evil.example",
            "",
            "::1",
            "127.0.0.1.nip.io",
        ] {
            assert!(!answers(host), "{host}");
        }
    }
}
