use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Command;
use clap_mangen::Man;

use super::{NAME, command, print, suggest};
use crate::failure::{BadInput as _, Failure};
use crate::say::{Data, tell};
use crate::whole_file;

/// Print the manual page of the program or of a command
///
/// `regard man walk | man -l -` shows the page of `regard walk`. With --to, all pages are written into a folder, such as
/// ~/.local/share/man/man1, where `man regard` and `man regard-walk` find them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The command [default: the program itself]
    #[arg(conflicts_with = "to")]
    command: Option<String>,

    /// Write the pages of the program and of all commands into this folder
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut program = command().disable_help_subcommand(true);
    program.build(); // gives each command its whole name, such as `regard walk`
    if let Some(folder) = &args.to {
        return write_all(&program, folder);
    }
    let page = match &args.command {
        None => page(&program),
        Some(name) => page(find(&program, name).bad_input()?),
    };
    print(&Data::new(page?))
}

fn find<'c>(program: &'c Command, name: &str) -> anyhow::Result<&'c Command> {
    let missing = || {
        let hint = suggest::hint(name, program.get_subcommands().map(Command::get_name));
        anyhow!("there is no command {name:?}{hint}")
    };
    program.find_subcommand(name).with_context(missing)
}

fn write_all(program: &Command, folder: &Path) -> Result<(), Failure> {
    let mut count = 0;
    for command in core::iter::once(program).chain(program.get_subcommands()) {
        let path = folder.join(Man::new(command.clone()).get_filename());
        let written = whole_file::write(&path, page(command)?.as_bytes());
        written.with_context(|| format!("writing {}", path.display()))?;
        count += 1;
    }
    let folder = folder.display();
    tell(format_args!("wrote {count} pages into {folder}, the first is {NAME}.1"));
    Ok(())
}

/// A page in roff, the language of `man`.
fn page(command: &Command) -> anyhow::Result<String> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page).context("writing a manual page")?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
