//! The check of the finished pages: every link leads to a file, and to a place in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// The pages that are not chapters: mdBook makes one of all chapters, and one for addresses that do not exist.
const MADE: [&str; 3] = ["print.html", "404.html", "toc.html"];

/// Each link of the pages below `folder` that leads nowhere, with its page, and the number of pages.
///
/// # Errors
/// Files that cannot be read.
pub fn broken_links(folder: &Path) -> std::io::Result<(usize, Vec<String>)> {
    let mut pages = BTreeMap::new();
    collect(folder, &mut pages)?;
    let ids: BTreeMap<&Path, BTreeSet<&str>> =
        pages.iter().map(|(page, text)| (page.as_path(), attributes(text, " id=\"").collect())).collect();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for link in attributes(text, " href=\"").chain(attributes(text, " src=\"")) {
            if !leads(page, link, &ids) {
                broken.push(format!("{}: {link}", page.strip_prefix(folder).unwrap_or(page).display()));
            }
        }
    }
    Ok((pages.len(), broken))
}

fn collect(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> std::io::Result<()> {
    for entry in read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if name.ends_with(".html") && !MADE.contains(&name) {
            pages.insert(path.canonicalize()?, read_to_string(&path)?);
        }
    }
    Ok(())
}

/// The values of an attribute, written with its first quote.
fn attributes<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(name).skip(1).filter_map(|rest| rest.split_once('"')).map(|(value, _)| value)
}

fn leads(page: &Path, link: &str, ids: &BTreeMap<&Path, BTreeSet<&str>>) -> bool {
    if ["http:", "https:", "data:", "javascript:", "mailto:"].iter().any(|scheme| link.starts_with(scheme)) {
        return true;
    }
    let (path, id) = link.split_once('#').map_or((link, ""), |(path, id)| (path, id));
    let target = match path {
        "" => Ok(page.to_owned()),
        path => page.parent().unwrap_or(page).join(path).canonicalize(),
    };
    let Ok(target) = target else { return false };
    id.is_empty() || ids.get(target.as_path()).is_none_or(|ids| ids.contains(id))
}
