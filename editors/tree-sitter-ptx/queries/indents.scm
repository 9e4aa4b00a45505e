[(func_body) (block) (parameters)] @indent
["}" ")"] @outdent
