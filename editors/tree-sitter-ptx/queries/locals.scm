[(func_body) (block)] @local.scope
(declarator name: (_) @local.definition)
(label) @local.definition
[(identifier) (register)] @local.reference
