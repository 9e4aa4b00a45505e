//! What the tests share: finding ptxas, the corpus, and rendering diagnostics.
