//! What Tab completes in bash, zsh and fish, with a capture that runs.

use crate::support::{terminal::Terminal, *};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    process::{Child, Command},
};

/// What is typed before Tab, and what the line is afterwards. `NAME` is the capture's, and `PART` all of it but a letter.
const LINES: &[(&str, &str)] = &[
    ("capture -a dur", "capture -a duration:"),
    ("capture -b tot", "capture -b total:"),
    ("capture -w x -i si", "capture -w x -i sim"),
    ("capture -i share:PART", "capture -i share:NAME"),
    ("capture --sync alw", "capture --sync always"),
    ("capture --sync=alw", "capture --sync=always"),
    ("interfaces lo", "interfaces lo"),
    ("control PART", "control NAME"),
    ("control NAME rot", "control NAME rotate"),
    ("info /etc/passw", "info /etc/passwd"),
    ("compl", "completions"),
];

fn named(line: &str, name: &str) -> String {
    let part = &name[..name.len() - 1];
    line.replace("NAME", name).replace("PART", part)
}

/// A capture that is shared and controlled as `name`, in a folder for its socket.
fn captured(name: &str, folder: &Folder) -> Child {
    let mut command = forebay!("capture -i sim:rate=10kpps --share {name} --control {name}");
    command
        .env("RUNTIME_DIRECTORY", folder.path(""))
        .stderr(std::process::Stdio::null());
    let child = command.spawn().unwrap();
    wait_until(|| Path::new(&folder.path(name)).exists());
    child
}

/// Reads until `expected` is shown.
fn read_until(screen: &mut File, expected: &str) {
    let mut shown = String::new();
    let mut bytes = [0; 4096];
    while !shown.contains(expected) {
        let wait = Timespec {
            tv_sec: 30,
            tv_nsec: 0,
        };
        let ready = poll(&mut [PollFd::new(screen, PollFlags::IN)], Some(&wait));
        assert_eq!(ready, Ok(1), "no {expected:?} in {shown}");
        let count = screen.read(&mut bytes).expect(expected);
        shown += &String::from_utf8_lossy(&bytes[..count]);
        assert!(shown.len() < 1 << 20, "no {expected:?} in {shown}");
    }
}

/// Types each line into a shell on a terminal, and waits until it is completed.
fn complete_in(program: &str, flags: &str, setup: &str) {
    if !has(program) {
        return;
    }
    let folder = Folder::new();
    let name = format!("{program}{}x", std::process::id());
    let mut capture = captured(&name, &folder);
    let terminal = Terminal::new(400);
    let mut screen = terminal.screen();
    let path = std::env::var("PATH").unwrap();
    let beside = Path::new(FOREBAY).parent().unwrap().display();
    let mut shell = terminal
        .command(program)
        .args(flags.split(' '))
        .env("PATH", format!("{beside}:{path}"))
        .env("RUNTIME_DIRECTORY", folder.path(""))
        .env("HOME", folder.path(""))
        .env("TERM", "dumb")
        .env("PS1", "> ")
        .spawn()
        .unwrap();
    // The echo of the line itself does not contain the result.
    writeln!(screen, "{setup}; echo rea''dy").unwrap();
    read_until(&mut screen, "ready");
    for (typed, line) in LINES {
        let [typed, line] = [typed, line].map(|it| named(it, &name));
        // Control-U empties the line. On a new line, nothing of it is drawn by halves.
        write!(screen, "\x15\nforebay {typed}\t").unwrap();
        read_until(&mut screen, &format!("forebay {line}"));
    }
    writeln!(screen, "\x15exit").unwrap();
    drop(terminal);
    shell.wait().unwrap();
    capture.kill().unwrap();
    capture.wait().unwrap();
}

#[test]
fn bash_completes_values_of_this_moment() {
    // Calls the function as bash does: the second argument is what follows the last colon or equals sign.
    let script = r#"source <(forebay completions bash)
        compopt() { :; }
        while read -r line; do
            COMP_LINE=$line COMP_POINT=${#line} last=${line##* }
            word=${last##*[:=]}
            _forebay forebay "$word"
            printf '%s\n' "${COMPREPLY[@]/#/${last%"$word"}}"
        done"#;
    let folder = Folder::new();
    let name = format!("bash{}", std::process::id());
    let mut capture = captured(&name, &folder);
    let lines = LINES.iter().map(|(typed, _)| format!("forebay {typed}\n"));
    std::fs::write(
        folder.path("typed"),
        named(&lines.collect::<String>(), &name),
    )
    .unwrap();
    let path = std::env::var("PATH").unwrap();
    let beside = Path::new(FOREBAY).parent().unwrap().display();
    let output = Command::new("bash")
        .args(["-c", script])
        .env("PATH", format!("{beside}:{path}"))
        .env("RUNTIME_DIRECTORY", folder.path(""))
        .stdin(File::open(folder.path("typed")).unwrap())
        .output()
        .unwrap();
    capture.kill().unwrap();
    capture.wait().unwrap();
    for (_, line) in LINES {
        let line = named(line, &name);
        let (_, word) = line.rsplit_once(' ').unwrap_or(("", &line));
        let text = output.text();
        assert!(
            text.lines().any(|line| line == word),
            "{word}: {text}{}",
            output.log()
        );
    }
}

#[test]
fn zsh_completes_values_of_this_moment() {
    let setup = "autoload -Uz compinit; compinit -u -D; source <(forebay completions zsh)";
    complete_in("zsh", "-f -i", setup);
}

#[test]
fn fish_completes_values_of_this_moment() {
    if !has("fish") {
        return;
    }
    let folder = Folder::new();
    let name = format!("fish{}", std::process::id());
    let mut capture = captured(&name, &folder);
    let lines = LINES
        .iter()
        .map(|(typed, _)| format!("complete -C 'forebay {typed}'; "));
    let lines = named(&lines.collect::<String>(), &name);
    let beside = Path::new(FOREBAY).parent().unwrap().display();
    let script =
        format!("set -x PATH {beside} $PATH; source (forebay completions fish | psub); {lines}");
    let output = Command::new("fish")
        .args(["--no-config", "-c", &script])
        .env("RUNTIME_DIRECTORY", folder.path(""))
        .output()
        .unwrap();
    capture.kill().unwrap();
    capture.wait().unwrap();
    let text = output.text();
    for (_, line) in LINES {
        let line = named(line, &name);
        let (_, word) = line.rsplit_once(' ').unwrap_or(("", &line));
        let is_it = |line: &str| line.split('\t').next() == Some(word);
        assert!(text.lines().any(is_it), "{word}: {text}{}", output.log());
    }
}
