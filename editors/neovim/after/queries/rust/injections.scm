; extends

; PTX inside of `ptx!`, without its brackets. The text of a macro is made of child nodes: without `include-children` none of it would be PTX.
((macro_invocation
  macro: [(identifier) @_name (scoped_identifier name: (identifier) @_name)]
  (token_tree) @injection.content)
 (#eq? @_name "ptx")
 (#offset! @injection.content 0 1 0 -1)
 (#set! injection.language "ptx")
 (#set! injection.include-children))
