; The names of the nodes are those of tree-sitter-ptx at the revision in extension.toml.
(comment) @comment
[
  (version_directive)
  (target_directive)
  (address_size_directive)
  (file_directive)
  (section_directive)
  (visibility_directive)
  (pragma_directive)
] @keyword
(data_type) @type
(opcode) @function
(label) @label
(register) @variable.special
(identifier) @variable
[(number) (float_literal)] @number
(string) @string
