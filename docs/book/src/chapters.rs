//! The chapters of a book as mdBook passes them to a preprocessor: JSON, of which only the texts change.

use crate::document::Documents;
use serde_json::Value;
use std::path::Path;

/// The line of a chapter that is a document of the repository, before its path and after it.
const DOCUMENT: (&str, &str) = ("This chapter is [", "](");

/// The folder of the chapters in the repository.
const FOLDER: &str = "docs/book/text";

/// Puts documents and pictures into all chapters. The input is mdBook's `[context, book]`; the result is the book.
///
/// # Errors
/// JSON of another shape, and documents that do not exist.
pub fn preprocess(input: &str, root: &Path) -> Result<String, String> {
    let mut input: Value = serde_json::from_str(input).map_err(|why| why.to_string())?;
    let book = input.get_mut(1).ok_or("mdBook passes `[context, book]`")?;
    let mut documents = Documents::new(root);
    for_each_chapter(book, &mut |path, content| {
        documents.add(&format!("{FOLDER}/{path}"), path);
        if let Some((_, document)) = document(content) {
            documents.add(document, path);
        }
        Ok(())
    })?;
    for_each_chapter(book, &mut |path, content| {
        *content = match document(content) {
            Some((title, document)) => format!("{title}{}", documents.text(document, path)?),
            None => documents.linked(content, &format!("{FOLDER}/{path}"), path)?,
        };
        Ok(())
    })?;
    Ok(book.to_string())
}

/// The title of a chapter that is a document, if the document has none, and the document's path.
fn document(content: &str) -> Option<(&str, &str)> {
    let (title, rest) = content.split_once(DOCUMENT.0)?;
    rest.split_once(DOCUMENT.1).map(|(path, _)| (title, path))
}

/// Calls `visit` with the path and the text of each chapter, and of those inside of it.
fn for_each_chapter(
    node: &mut Value,
    visit: &mut dyn FnMut(&str, &mut String) -> Result<(), String>,
) -> Result<(), String> {
    for list in ["items", "sections", "sub_items"] {
        let Some(Value::Array(items)) = node.get_mut(list) else { continue };
        for chapter in items.iter_mut().filter_map(|item| item.get_mut("Chapter")) {
            let path = chapter.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Some(Value::String(content)) = chapter.get_mut("content") {
                visit(&path, content)?;
            }
            for_each_chapter(chapter, visit)?;
        }
    }
    Ok(())
}
