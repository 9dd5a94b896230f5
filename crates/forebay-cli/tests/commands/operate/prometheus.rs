//! A Prometheus server that scrapes running captures, with the alert rules and the dashboard of `contrib/`.

use crate::operate::{Running, running};
use crate::support::*;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const DASHBOARD: &str = "contrib/grafana/forebay.json";
const RULES: &str = "contrib/prometheus/forebay.rules.yml";
const RULE_TESTS: &str = "contrib/prometheus/forebay.test.yml";
const PAGE: &str = "docs/operate.md";

fn text_of(name: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{name}")).unwrap()
}

/// Every name of a metric in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    let names = words.filter(|word| word.starts_with("forebay_"));
    names.map(str::to_owned).collect()
}

/// The expressions of the dashboard's panels, with values for Grafana's variables.
fn queries() -> Vec<String> {
    let dashboard = object(&text_of(DASHBOARD));
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["datasource", "capture"]);
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| {
        let query = target["expr"].as_str().unwrap().replace("$capture", ".*");
        let query = query.replace("$__rate_interval", "10s");
        let query = query.replace("$__range", "10s");
        assert!(!query.contains('$'), "{query}");
        query
    });
    queries.collect()
}

/// A server that scrapes captures every second.
struct Prometheus {
    _child: children::Mortal,
    address: String,
}

impl Prometheus {
    fn start(folder: &Folder, captures: &[&Running]) -> Self {
        let targets = captures.iter().map(|it| format!("\"{}\"", it.metrics));
        let targets = targets.collect::<Vec<_>>().join(", ");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [\"{ROOT}/{RULES}\"]
scrape_configs:
  - job_name: forebay
    static_configs: [{{targets: [{targets}]}}]
"
        );
        fs::write(folder.path("prometheus.yml"), config).unwrap();
        // The server cannot report a port that it chose.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", folder.path("prometheus.yml")))
            .arg(format!("--storage.tsdb.path={}", folder.path("data")))
            .arg(format!("--web.listen-address={address}"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let log = fs::File::create(folder.path("prometheus.log")).unwrap();
        let child = command.stderr(log).spawn().unwrap();
        Prometheus {
            _child: children::Mortal(child),
            address,
        }
    }

    /// What the server answers; `None` while it does not.
    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        let (_, body) = response.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }

    /// The samples of an expression: labels and values.
    fn query(&self, expression: &str) -> Vec<Value> {
        let escaped = expression.bytes().map(|byte| format!("%{byte:02x}"));
        let escaped: String = escaped.collect();
        let Some(answer) = self.get(&format!("/api/v1/query?query={escaped}")) else {
            return Vec::new();
        };
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }
}

#[test]
fn the_alert_rules_fire_when_they_should() {
    if !has("promtool") {
        return;
    }
    let of_archive =
        ["rules", "test"].map(|it| format!("contrib/prometheus/forebay-archive.{it}.yml"));
    let [rules, tests] = of_archive.each_ref().map(String::as_str);
    let files = [
        ("check", RULES),
        ("test", RULE_TESTS),
        ("check", rules),
        ("test", tests),
    ];
    for (check, file) in files {
        let mut promtool = Command::new("promtool");
        let promtool = promtool.args([check, "rules", file]).current_dir(ROOT);
        promtool.output().unwrap().succeeds();
    }
}

#[test]
fn a_server_scrapes_captures_evaluates_the_rules_and_answers_the_dashboard() {
    if !has("prometheus") {
        return;
    }
    let (folder, writing, counting) = (Folder::new(), Folder::new(), Folder::new());
    let file = writing.path("a.pcapng");
    let lossy = "sim:rate=10M,stall=200ms@1s,ring=64,host=none";
    let words = format!("-i {lossy} -w {file} -b duration:1 -b files:2 --metrics 0");
    let mut writing = running(&writing, &words);
    // Only a real interface counts its own losses.
    let is_root = rustix::process::geteuid().is_root();
    let source = if is_root { "lo" } else { "sim:rate=1M" };
    let counting = running(&counting, &format!("-i {source} --count --metrics 0"));
    let server = Prometheus::start(&folder, &[&writing, &counting]);

    let queries = queries();
    assert!(queries.len() > 15, "{queries:?}");
    let unknown = "forebay_interface_dropped_packets_total";
    for query in &queries {
        if !is_root && query.contains(unknown) {
            children::skip("the right to capture from lo");
            continue;
        }
        wait_until(|| !server.query(query).is_empty());
    }

    // The dashboard, the rules and the page use metrics that exist, and the page has all of them.
    let names = server.query("group by (__name__) ({__name__=~\"forebay_.+\"})");
    let names = names.iter().map(|it| it["metric"]["__name__"].as_str());
    let names: BTreeSet<_> = names.map(|name| name.unwrap().to_owned()).collect();
    let page = text_of(PAGE);
    let documented = metrics_in(&page);
    let used = [metrics_in(&text_of(RULES)), metrics_in(&queries.join(" "))];
    for name in used.iter().flatten().chain(&documented) {
        let is_there = names.contains(name) || !is_root && name == unknown;
        assert!(is_there, "{name} is in no scrape: {names:?}");
    }
    for name in &names {
        assert!(documented.contains(name), "{name} is not in {PAGE}");
    }

    // The rules are evaluated, and the loss is an alert.
    let loss = "ALERTS{alertname=\"ForebayPacketsDropped\",cause=\"kernel\"}";
    wait_until(|| !server.query(loss).is_empty());
    let groups = server.get("/api/v1/rules").unwrap();
    let rules = groups["data"]["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 8, "{groups}");
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        contains(&page, format!("`{}`", rule["name"].as_str().unwrap()));
    }

    // After the end, the server has the final ledger.
    let json = writing.control("stop --json").succeeds().json();
    assert_eq!(writing.ended(), json);
    let last = |name: &str, label: &str| {
        let at = &writing.metrics;
        let query = format!("last_over_time(forebay_{name}{{instance=\"{at}\"{label}}}[1m])");
        let value = server.query(&query)[0]["value"][1].clone();
        value.as_str().unwrap().parse::<f64>().unwrap() as u64
    };
    // The server takes a response a moment before its samples can be queried.
    wait_until(|| last("running", "") == 0);
    for (name, key) in [
        ("packets_received_total", "received"),
        ("packets_written_total", "written"),
        ("packets_durable_total", "durable"),
        ("durable_bytes_total", "durable_bytes"),
        ("files_written_total", "files_written"),
    ] {
        assert_eq!(last(name, ""), count(&json[key]), "{name}");
    }
    for (cause, lost) in json["dropped"].as_object().unwrap() {
        let label = format!(",cause=\"{cause}\"");
        assert_eq!(
            last("packets_dropped_total", &label),
            count(lost),
            "{cause}"
        );
    }
}
