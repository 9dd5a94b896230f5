//! What is refused before anything is made, so that nothing is lost by a wrong request.

use crate::support::*;
use std::{fs::File, io::Write, path::Path};

#[test]
fn what_is_read_is_not_overwritten() {
    let (folder, input) = captured("in.pcapng", "count=100");
    let before = std::fs::read(&input).unwrap();
    let link = folder.path("link.pcapng");
    std::os::unix::fs::symlink(&input, &link).unwrap();
    for output in [&input, &link] {
        run!("capture -r {input} -w {output}").fails(2, "would overwrite");
    }
    let mut appended = File::options().append(true).open(&input).unwrap();
    let mut onto_itself = forebay!("capture -r {input} -w -");
    onto_itself.stdout(appended.try_clone().unwrap());
    let mut from_itself = forebay!("capture -r - -w {input}");
    from_itself.stdin(File::open(&input).unwrap());
    for mut command in [onto_itself, from_itself] {
        command.output().unwrap().fails(2, "would overwrite");
    }
    appended.flush().unwrap();
    assert_eq!(std::fs::read(&input).unwrap(), before);
}

#[test]
fn nonsense_is_refused_before_anything_is_made() {
    let (folder, input) = captured("in.pcapng", "count=10");
    let output = folder.path("out.pcapng");
    let empty = folder.file("empty", "");
    let text = folder.file("text", "not a capture at all, only some text");
    let missing = folder.path("missing");
    let cases = format!(
        "
        2 | -r {input} host           | host
        2 | -r {input} -F {text}      | not a capture at all
        2 | -r {input} -F {text} udp  | -F
        1 | -r {input} -F {missing}   | No such file
        2 | -r - -r -                 | only once
        2 | -r {input} inbound        | inbound
        1 | -r {missing}              | no such file
        1 | -r {empty}                | is empty
        1 | -r {text}                 | neither pcap nor pcapng
        1 | -r /                      | directory
        "
    );
    for [code, arguments, expected] in rows(&cases) {
        run!("capture {arguments} -w {output}").fails(code.parse().unwrap(), expected);
        assert!(!Path::new(&output).exists(), "{arguments}");
    }
    let ran = run!("capture -r {input} 'tcp prot 80' -w {output}");
    ran.fails(2, "  tcp prot 80\n      ^^^^\n");
}
