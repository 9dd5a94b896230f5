//! A terminal that the test controls: it reads it, stops it, or does not read it.

#![allow(dead_code)] // each test program uses a part

use super::text;
use rustix::{pty, termios};
use std::{
    fs::File,
    io::Read,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    process::{Child, Command, Stdio},
    thread::JoinHandle,
};

pub struct Terminal {
    controller: File,
    /// The end that programs have.
    pub theirs: File,
}

impl Terminal {
    pub fn new(columns: u16) -> Self {
        let flags = pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY | pty::OpenptFlags::CLOEXEC;
        let controller = pty::openpt(flags).unwrap();
        pty::grantpt(&controller).unwrap();
        pty::unlockpt(&controller).unwrap();
        let name = pty::ptsname(&controller, Vec::new()).unwrap();
        let name = std::ffi::OsStr::from_bytes(name.as_bytes());
        let theirs = rustix::fs::open(
            name,
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        );
        let terminal = Terminal {
            controller: File::from(controller),
            theirs: File::from(theirs.unwrap()),
        };
        terminal.resize(columns);
        terminal
    }

    pub fn resize(&self, columns: u16) {
        let size = termios::Winsize {
            ws_row: 24,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        termios::tcsetwinsize(&self.theirs, size).unwrap();
    }

    /// What is shown, to be read while programs run.
    pub fn screen(&self) -> File {
        self.controller.try_clone().unwrap()
    }

    /// Ctrl-S: from here on what is written to it waits.
    pub fn stop(&self) {
        termios::tcflow(&self.theirs, termios::Action::OOff).unwrap();
    }

    /// Ctrl-Q.
    pub fn go_on(&self) {
        termios::tcflow(&self.theirs, termios::Action::OOn).unwrap();
    }

    fn end(&self) -> Stdio {
        Stdio::from(self.theirs.as_fd().try_clone_to_owned().unwrap())
    }

    /// A command whose terminal this is: it is in the foreground, and its three descriptors are the terminal's.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setsid");
        command.args(["--ctty", program]);
        command
            .stdin(self.end())
            .stdout(self.end())
            .stderr(self.end());
        command
    }

    /// The same for a script of bash.
    pub fn shell(&self, script: &str) -> Child {
        let mut command = self.command("bash");
        command.args(["-c", script]).spawn().unwrap()
    }

    /// Reads all that is shown until no program has the terminal any more.
    pub fn read(self) -> JoinHandle<String> {
        let Terminal {
            mut controller,
            theirs,
        } = self;
        drop(theirs);
        std::thread::spawn(move || {
            let mut shown = Vec::new();
            // It ends with EIO.
            let _ = controller.read_to_end(&mut shown);
            text(&shown).to_owned()
        })
    }
}

/// The rows that a terminal of this width shows in the end: `\r`, `\n` and wrapping, which is all that we use.
pub fn rows(shown: &str, columns: usize) -> Vec<String> {
    let mut rows = vec![Vec::new()];
    let mut at = 0;
    for letter in shown.chars() {
        match letter {
            '\r' => at = 0,
            '\n' => {
                rows.push(Vec::new());
                at = 0;
            }
            letter => {
                if at == columns {
                    rows.push(Vec::new());
                    at = 0;
                }
                let row: &mut Vec<char> = rows.last_mut().unwrap();
                row.resize(row.len().max(at + 1), ' ');
                row[at] = letter;
                at += 1;
            }
        }
    }
    let text = |row: Vec<char>| String::from_iter(row).trim_end().to_owned();
    rows.into_iter().map(text).collect()
}
