//! A terminal with a shell, of a tmux server that the test has alone.

use crate::support::*;
use forebay_testing::lab;
use std::{
    path::Path,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

const MAX_WAIT: Duration = Duration::from_secs(60);

pub const PROMPT: &str = "READY>";

pub struct Tmux {
    folder: Folder,
    size: (u16, u16),
}

impl Tmux {
    /// A shell with job control on a terminal of this size; `None`, with a message, if tmux is not installed.
    pub fn new(width: u16, height: u16) -> Option<Self> {
        if !has("tmux") {
            return None;
        }
        let tmux = Tmux {
            folder: Folder::new(),
            size: (width, height),
        };
        let (width, height) = (width.to_string(), height.to_string());
        let shell = format!("env PS1='{PROMPT} ' TZ=UTC bash --norc --noprofile");
        let session = ["-f", "/dev/null", "new-session", "-d"];
        // Before there is a session, tmux 3.3 crashes.
        let options = words("; set-option -g window-size manual ; set-option -g status off");
        let size = ["-x", &width, "-y", &height, &shell];
        tmux.run(&[&session[..], &size, &options].concat());
        tmux.shows(PROMPT);
        Some(tmux)
    }

    /// The folder in which the shell is.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    fn run(&self, words: &[&str]) -> String {
        let programs = Path::new(FOREBAY).parent().unwrap().display();
        let path = std::env::var("PATH").unwrap();
        let mut tmux = lab::tool("tmux");
        tmux.args(["-u", "-S", &self.folder.path("tmux")])
            .args(words);
        tmux.env("PATH", format!("{programs}:{path}"))
            .env_remove("TMUX")
            .current_dir(self.folder.path(""));
        tmux.output().unwrap().succeeds().text().to_owned()
    }

    /// The rows of the screen, without blanks and empty rows at its end.
    pub fn screen(&self) -> String {
        let screen = self.run(&["capture-pane", "-p"]);
        let rows = screen.trim_end().lines().map(str::trim_end);
        rows.map(|row| format!("{row}\n")).collect()
    }

    /// Presses a key, such as `q` or `C-z`.
    pub fn press(&self, key: &str) {
        self.run(&["send-keys", key]);
    }

    /// Types a line and Enter.
    pub fn enter(&self, line: &str) {
        self.run(&["send-keys", "-l", line]);
        // A prompt that waits later is then another one.
        let typed = format!("{PROMPT} {}", &line[..5]);
        self.waits_for(|screen| screen.contains(&typed));
        self.press("Enter");
    }

    /// Waits until the screen has `part`, or waits for a line if `part` is the prompt, and returns it.
    #[track_caller]
    pub fn shows(&self, part: &str) -> String {
        self.waits_for(|screen| match part {
            PROMPT => screen.ends_with(&format!("{PROMPT}\n")),
            _ => screen.contains(part),
        })
    }

    /// Waits until the screen `is_so`, for at most a minute, and returns it.
    #[track_caller]
    pub fn waits_for(&self, is_so: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < MAX_WAIT, "it stays so:\n{screen}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen is the one in the file of this name and size, and returns it. `is_so` chooses a screen for a new file.
    #[track_caller]
    pub fn draws(&self, name: &str, is_so: impl Fn(&str) -> bool) -> String {
        let expected = self.expected(name, || self.waits_for(is_so));
        self.waits_for(|screen| screen == expected)
    }

    /// Compares `screen` with the file for the screen of this name and size.
    #[track_caller]
    pub fn compare(&self, name: &str, screen: &str) {
        let expected = self.expected(name, || screen.to_owned());
        assert_eq!(screen, expected, "{name}:\n{screen}");
    }

    /// The file for the screen of this name and size, written anew if the tests are asked for it.
    fn expected(&self, name: &str, screen: impl FnOnce() -> String) -> String {
        let (width, height) = self.size;
        let screens = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/commands/screens/screens"
        );
        let path = format!("{screens}/{name}-{width}x{height}.txt");
        if std::env::var_os("FOREBAY_WRITE_SCREENS").is_some() {
            std::fs::create_dir_all(screens).unwrap();
            std::fs::write(&path, screen()).unwrap();
        }
        std::fs::read_to_string(&path).unwrap()
    }
}

/// The screen with `#` for each number, and with bars of one length.
pub fn masked(screen: &str) -> String {
    let mut masked = String::new();
    for letter in screen.chars() {
        match letter {
            '0'..='9' if masked.ends_with('#') => {}
            '0'..='9' => {
                while masked.ends_with("  ") {
                    masked.pop();
                }
                masked.push('#');
            }
            '.' | ':' if masked.ends_with('#') => {}
            '=' | '>' | ' ' if masked.ends_with("[=") => {}
            letter => masked.push(letter),
        }
    }
    masked
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux")
            .args(["-S", &self.folder.path("tmux"), "kill-server"])
            .output();
    }
}
