//! `ptx explain`

use crate::output::{Failure, Outcome};
use ptx_core::diag::codes;
use ptx_core::diag::near::nearest;
use std::io::Write;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A code such as P0302, in any case; none lists them all.
    code: Option<String>,
    /// Every page, as one Markdown document: `docs/language/diagnostics.md`.
    #[arg(long, conflicts_with = "code")]
    markdown: bool,
}

/// Always sound.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    match &arguments.code {
        Some(id) => one(id, out),
        None if arguments.markdown => markdown(out),
        None => list(out),
    }
}

fn one(id: &str, out: &mut dyn Write) -> Outcome {
    let Some(code) = codes::find(id) else {
        let near = nearest(&id.to_uppercase(), codes::ALL.iter().map(|c| c.id));
        let help = near.map_or("`ptx explain` lists the codes".to_owned(), |near| format!("did you mean {near}?"));
        return Err(Failure::usage(format!("there is no code `{id}`; {help}")));
    };
    writeln!(out, "{}: {}\n\n{}", code.id, code.title, code.explain.trim_end())?;
    Ok(true)
}

fn list(out: &mut dyn Write) -> Outcome {
    for code in codes::ALL {
        writeln!(out, "{}  {}", code.id, code.title)?;
    }
    Ok(true)
}

fn markdown(out: &mut dyn Write) -> Outcome {
    writeln!(
        out,
        "# Diagnostics\n\nMade by `ptx explain --markdown` from `ptx-core/explain/`; `ptx explain CODE` shows one."
    )?;
    for code in codes::ALL {
        writeln!(out, "\n## {}: {}\n\n{}", code.id, code.title, code.explain.trim_end())?;
    }
    Ok(true)
}
