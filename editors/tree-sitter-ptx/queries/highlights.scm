; Later patterns win.
(identifier) @variable
(register) @variable.parameter
(opcode) @function
(modifier) @attribute
(data_type) @type
(state_space) @keyword.storage
[
  ".entry" ".func" ".align" ".callprototype" ".loc"
  (version_directive) (target_directive) (address_size_directive) (file_directive) (section_directive) (dwarf_directive)
  (visibility_directive) (pragma_directive)
] @keyword
(function_directive (modifier) @keyword)
(directive (modifier) @keyword)
(attribute) @keyword
(entry_declaration name: (_) @function)
(function_declaration name: (_) @function)
(label) @label
(number) @constant.numeric.integer
(float_literal) @constant.numeric.float
(string) @string
(comment) @comment
(predicate ["@" "!"] @operator)
(binary operator: _ @operator)
["," ";" ":"] @punctuation.delimiter
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
