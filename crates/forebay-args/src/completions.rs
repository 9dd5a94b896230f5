//! The flags of `completions`.

use clap::Args as ClapArgs;

pub const HELP: &str = "\
Examples:
  forebay completions bash \\
    > ~/.local/share/bash-completion/completions/forebay
  forebay completions zsh > ~/.zfunc/_forebay
  forebay completions fish \\
    > ~/.config/fish/completions/forebay.fish";

#[derive(ClapArgs)]
pub struct Completions {
    /// The shell to complete for
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}
