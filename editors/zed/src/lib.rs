//! The extension for Zed: the command of the language server. Everything else is in `extension.toml` and `languages/`.

use zed_extension_api::settings::LspSettings;
use zed_extension_api::{Command, Extension, LanguageServerId, Result, Worktree, register_extension};

/// Debian's coreutils have another `ptx`, which would wait for input without an answer.
const HELP: &str = "install it with `cargo install --path ptx-cli`, or set `lsp.ptx.binary.path`";

struct Ptx;

impl Extension for Ptx {
    fn new() -> Self {
        Ptx
    }

    fn language_server_command(&mut self, server: &LanguageServerId, worktree: &Worktree) -> Result<Command> {
        let binary = LspSettings::for_worktree(server.as_ref(), worktree)?.binary;
        let path = binary.as_ref().and_then(|binary| binary.path.clone());
        let command = path
            .or_else(|| worktree.which("ptx").filter(|found| found != "/usr/bin/ptx"))
            .ok_or_else(|| format!("the command `ptx` is not on the path; {HELP}"))?;
        let args = binary.and_then(|binary| binary.arguments).unwrap_or_else(|| vec!["lsp".to_owned()]);
        Ok(Command { command, args, env: worktree.shell_env() })
    }
}

register_extension!(Ptx);
