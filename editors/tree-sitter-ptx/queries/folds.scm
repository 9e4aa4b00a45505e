[(func_body) (block) (parameters)] @fold
