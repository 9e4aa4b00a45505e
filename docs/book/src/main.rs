//! `ptx-book`: mdBook's preprocessor of this book, and `ptx-book check FOLDER`, which checks the links of the finished pages.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["supports", renderer] => ExitCode::from(u8::from(renderer != "html")),
        ["check", folder] => {
            report(ptx_book::site::broken_links(Path::new(folder)).map_err(|why| why.to_string()).and_then(
                |(pages, broken)| {
                    if broken.is_empty() {
                        Ok(format!("{pages} pages, every link leads somewhere"))
                    } else {
                        Err(broken.join("\n"))
                    }
                },
            ))
        }
        [] => report(preprocess()),
        _ => report(Err("usage: ptx-book [supports RENDERER | check FOLDER]".to_owned())),
    }
}

fn preprocess() -> Result<String, String> {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).map_err(|why| why.to_string())?;
    ptx_book::chapters::preprocess(&input, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

fn report(result: Result<String, String>) -> ExitCode {
    match result {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
