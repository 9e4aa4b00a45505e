//! The table of operators in the documentation.

#[test]
fn the_documentation_shows_the_table() {
    expect_test::expect_file!["../../../docs/language/operators.md"].assert_eq(&ptx_language::operators());
}
