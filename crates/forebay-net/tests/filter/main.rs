//! Compares filters with tcpdump, expression by expression: the packets of a corpus that each accepts, the expressions that each
//! rejects, the printed programs, and the same programs in the kernel on a live interface. The verdicts and programs of tcpdump are
//! those of libpcap, which it uses; a test checks on a sample that `tcpdump` itself prints and keeps the same.
//!
//! Needs `tcpdump` and its library; live tests also need what `forebay_testing::lab` needs. A test whose needs are missing prints `skipped: needs …`; with
//! `CI=true` in the environment it fails.

mod corpus;
mod expressions;
mod headers;
mod layers;
mod libpcap;
mod live;
mod oracle;
mod protochain;
mod tap;
mod wifi;

use corpus::Packet;
use forebay_net::filter::{self, Filter, View, bpf::Program};
use forebay_net::port::LinkType;
use forebay_testing::{folder::Folder, lab};
use libpcap::Source;
use oracle::{LINKS, SNAPLEN};
use std::path::PathBuf;

/// A file in its own folder, and its packets.
struct Corpus {
    _folder: Folder,
    path: PathBuf,
    packets: Vec<Packet>,
    source: Source,
}

impl Corpus {
    fn of(link: u16) -> Self {
        let packets = match link {
            1 => corpus::ethernet(),
            link => corpus::under(link),
        };
        Corpus::with(link, packets)
    }

    fn with(link: u16, packets: Vec<Packet>) -> Self {
        let folder = Folder::new();
        let path = PathBuf::from(folder.path("corpus.pcap"));
        oracle::write(&path, link, &packets);
        Corpus {
            source: Source::file(path.to_str().unwrap()),
            _folder: folder,
            path,
            packets,
        }
    }

    /// The numbers of these packets.
    fn numbers(&self, keeps: impl Fn(&Packet) -> bool) -> Vec<usize> {
        let all = self.packets.iter().enumerate();
        let kept = all.filter(|(_, packet)| keeps(packet));
        kept.map(|(number, _)| number).collect()
    }

    /// The numbers of the packets that a program accepts.
    fn kept(&self, program: &Program) -> Vec<usize> {
        self.numbers(|packet| program.run(&packet.data, packet.wire_len) > 0)
    }

    /// tcpdump's program for an expression, or its error.
    fn theirs(&self, expression: &str) -> Result<libpcap::Filter, String> {
        self.source.compile(expression, true)
    }

    /// The numbers of the packets that tcpdump accepts, or its error for the expression.
    fn kept_by_tcpdump(&self, expression: &str) -> Result<Vec<usize>, String> {
        let theirs = self.theirs(expression)?;
        Ok(self.numbers(|packet| theirs.keeps(packet)))
    }
}

/// Requires that there is no difference.
fn none_differ(wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Whether tcpdump and libpcap are installed; if not, prints that the test is skipped.
fn oracle_is_there() -> bool {
    let there = lab::have("tcpdump") && libpcap::is_installed();
    if !there {
        lab::skip("the tool `tcpdump`, and libpcap as a shared library");
    }
    there
}

/// Our program for files of a link type.
fn compiled(expression: &str, link: u16) -> Result<Program, filter::Error> {
    let filter: Filter = expression.parse()?;
    filter.compile(LinkType(link), View::Packet, SNAPLEN)
}

/// Runs both programs over all packets of a link and compares them with tcpdump's verdicts. tcpdump's program tests our machine,
/// ours tests the compiler. Differences are added to `wrong`.
fn compare(link: u16, wrong: &mut Vec<String>) {
    let corpus = Corpus::of(link);
    let taken = expressions::kept_and_left();
    for expression in taken.chain(expressions::all_or_nothing()) {
        let mut tell = |what: String| wrong.push(format!("link {link}: {expression}: {what}"));
        let theirs = match corpus.theirs(expression) {
            Ok(theirs) => theirs,
            Err(error) => {
                if link == 1 || compiled(expression, link).is_ok() {
                    tell(format!("tcpdump rejects it: {error}"));
                }
                continue;
            }
        };
        let expected = corpus.numbers(|packet| theirs.keeps(packet));
        if corpus.kept(&theirs.program()) != expected {
            tell("tcpdump's program gives another result in our machine".into());
        }
        match compiled(expression, link) {
            Ok(ours) => {
                let kept = corpus.kept(&ours);
                if kept != expected {
                    let other = |number: &usize| kept.contains(number) != expected.contains(number);
                    let number = (0..corpus.packets.len()).find(other).unwrap();
                    let (keeps, packet) = (kept.contains(&number), &corpus.packets[number]);
                    tell(format!("accepted: {keeps}, unlike tcpdump: {packet:02x?}"));
                }
            }
            Err(error) => tell(error.to_string()),
        }
    }
}

#[test]
fn every_packet_is_kept_or_left_as_by_tcpdump() {
    if !oracle_is_there() {
        return;
    }
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let work = |link: u16| {
            let mut wrong = Vec::new();
            compare(link, &mut wrong);
            wrong
        };
        let threads = LINKS.map(|link| scope.spawn(move || work(link)));
        let found = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        found.collect()
    });
    none_differ(&wrong);
}

/// Otherwise the comparison could be empty.
#[test]
fn each_expression_keeps_some_packets_and_leaves_some() {
    if !oracle_is_there() {
        return;
    }
    let corpus = Corpus::of(1);
    let some = |expression: &&str| {
        let kept = corpus.kept_by_tcpdump(expression);
        let kept = kept.map_or(0, |kept| kept.len());
        kept > 0 && kept < corpus.packets.len()
    };
    let idle: Vec<_> = expressions::kept_and_left().filter(|e| !some(e)).collect();
    assert!(idle.is_empty(), "all or nothing:\n{}", idle.join("\n"));
    let named: Vec<_> = expressions::all_or_nothing().filter(some).collect();
    assert!(
        named.is_empty(),
        "not all or nothing:\n{}",
        named.join("\n")
    );
    assert!(expressions::kept_and_left().count() >= 150);
}

#[test]
fn nonsense_is_refused_here_and_by_tcpdump() {
    if !oracle_is_there() {
        return;
    }
    let corpus = Corpus::of(1);
    let mut wrong = Vec::new();
    for expression in expressions::nonsense() {
        if compiled(expression, 1).is_ok() {
            wrong.push(format!("forebay accepts it: {expression}"));
        }
        if corpus.theirs(expression).is_ok() {
            wrong.push(format!("tcpdump accepts it: {expression}"));
        }
    }
    for expression in expressions::refused_here() {
        if compiled(expression, 1).is_ok() {
            wrong.push(format!("no longer rejected: {expression}"));
        }
    }
    none_differ(&wrong);
    assert!(expressions::nonsense().count() >= 30);
}

/// The other tests take libpcap's verdicts and programs for those of tcpdump.
#[test]
fn tcpdump_keeps_what_libpcap_keeps_and_prints_its_programs() {
    if !oracle_is_there() {
        return;
    }
    for (place, link) in LINKS.into_iter().enumerate() {
        let corpus = Corpus::of(link);
        let expressions = expressions::kept_and_left().chain(expressions::all_or_nothing());
        for expression in expressions.skip(place).step_by(29) {
            let kept = oracle::kept(&corpus.path, expression);
            assert_eq!(
                kept.is_ok(),
                corpus.theirs(expression).is_ok(),
                "{expression}"
            );
            let Ok(kept) = kept else {
                continue;
            };
            assert_eq!(Ok(kept), corpus.kept_by_tcpdump(expression), "{expression}");
            let printed = oracle::printed("-ddd", &corpus.path, expression).unwrap();
            let theirs = corpus.theirs(expression).unwrap().program();
            assert_eq!(theirs.numbers().to_string(), printed, "{expression}");
        }
    }
    let corpus = Corpus::of(1);
    for expression in expressions::nonsense().step_by(9) {
        assert!(
            oracle::printed("-ddd", &corpus.path, expression).is_err(),
            "{expression}"
        );
    }
}

#[test]
fn programs_are_printed_as_tcpdump_prints_them() {
    if !oracle_is_there() {
        return;
    }
    let corpus = Corpus::of(1);
    for expression in expressions::kept_and_left().step_by(7) {
        let printed = |form: &str| oracle::printed(form, &corpus.path, expression).unwrap();
        let program: Program = printed("-ddd").parse().unwrap();
        assert_eq!(
            program.numbers().to_string(),
            printed("-ddd"),
            "{expression}"
        );
        assert_eq!(program.array().to_string(), printed("-dd"), "{expression}");
        assert_eq!(program.listing().to_string(), printed("-d"), "{expression}");
    }
}
