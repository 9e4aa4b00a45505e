//! The directives that begin a statement, by what has to follow them.

/// The construct that a `Dot` token at the start of a statement begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// `.extern` and others: a declaration or a function follows.
    Linkage,
    /// `.entry`, `.func`.
    Func,
    /// A state space: a variable declaration.
    Space,
    /// `.section`.
    Section,
    /// `.callprototype`.
    Prototype,
    /// A directive that has to end in `;`, so that its arguments may stand on other lines.
    Closed,
    /// A directive that ends with its line.
    Open,
    /// No directive that we know; read as `Open`.
    Unknown,
}

/// Classifies a directive by its text: manual chapter 11 and section 5.1.
pub(super) fn start(name: &[u8]) -> Start {
    match name {
        b".extern" | b".visible" | b".weak" | b".common" => Start::Linkage,
        b".entry" | b".func" => Start::Func,
        b".reg" | b".param" | b".shared" | b".global" | b".local" | b".const" | b".sreg" | b".tex" => Start::Space,
        b".section" => Start::Section,
        b".callprototype" => Start::Prototype,
        b".pragma" | b".alias" | b".branchtargets" | b".calltargets" => Start::Closed,
        b".loc" | b".file" | b".version" | b".target" | b".address_size" => Start::Open,
        _ => Start::Unknown,
    }
}

/// Returns true if a `Dot` token in a declaration is something beside the type: manual section 5.4.
pub(super) fn is_attribute(name: &[u8]) -> bool {
    matches!(name, b".align" | b".attribute" | b".ptr" | b".v2" | b".v4" | b".v8")
}
