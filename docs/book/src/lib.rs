//! Makes the book of this repository's documents: mdBook's preprocessor, and the check of the pages that it makes.
//!
//! A chapter whose text is `This chapter is [PATH](…).` becomes that document of the repository. Links between documents become links
//! between chapters, pictures become parts of the page, and links to files that are not in the book become plain words, because the book
//! is read without the repository. The code in a chapter is already there: `listing` copies it from files that the tests compile.

pub mod chapters;
pub mod document;
pub mod figures;
pub mod listing;
pub mod site;
