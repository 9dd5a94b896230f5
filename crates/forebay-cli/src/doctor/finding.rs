//! What a check has found, and how it is to be taken.

/// How a finding is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Fine,
    /// Worth knowing, or a setting that changes what a capture sees.
    Note,
    /// It loses packets, or prevents capturing.
    Loss,
}

impl State {
    pub fn loss_if(is_loss: bool) -> State {
        if is_loss { State::Loss } else { State::Fine }
    }

    pub fn name(self) -> &'static str {
        match self {
            State::Fine => "ok",
            State::Note => "note",
            State::Loss => "LOSS",
        }
    }
}

pub struct Finding {
    pub subject: String,
    pub state: State,
    pub text: String,
    /// The command that changes it.
    pub command: Option<String>,
}

/// The findings about one subject.
pub struct Findings {
    pub subject: String,
    pub list: Vec<Finding>,
}

impl Findings {
    pub fn about(subject: impl Into<String>) -> Self {
        Findings {
            subject: subject.into(),
            list: Vec::new(),
        }
    }

    pub fn put(&mut self, state: State, text: impl Into<String>, command: Option<String>) {
        self.list.push(Finding {
            subject: self.subject.clone(),
            state,
            text: text.into(),
            command,
        });
    }

    pub fn fine(&mut self, text: impl Into<String>) {
        self.put(State::Fine, text, None);
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.put(State::Note, text, None);
    }
}
