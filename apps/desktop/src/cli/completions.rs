use clap_complete::Shell;

use super::{NAME, command, print};
use crate::failure::Failure;
use crate::say::Data;

/// Print the completions of a shell: `regard wa⇥` becomes `regard walk`
///
/// The shell reads them when it starts:
///
///   bash        regard completions bash > ~/.local/share/bash-completion/completions/regard
///   zsh         regard completions zsh > "${fpath[1]}/_regard"
///   fish        regard completions fish > ~/.config/fish/completions/regard.fish
///   PowerShell  regard completions powershell >> $PROFILE
///   elvish      regard completions elvish >> ~/.config/elvish/rc.elv
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), NAME, &mut script);
    print(&Data::new(String::from_utf8_lossy(&script)))
}
