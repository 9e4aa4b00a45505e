-- Neovim with the configuration of the documentation against `ptx lsp`, headless: `nvim --headless -c "luafile .ci/neovim.lua"`, with the file in PTX_FILE.
local function wait(what, condition)
  if not vim.wait(20000, condition, 20) then
    io.stderr:write("no " .. what .. " after 20 s\n")
    vim.cmd("cquit")
  end
end

vim.cmd.edit(vim.env.PTX_FILE)
local clients = function() return vim.lsp.get_clients({ bufnr = 0, name = "ptx" }) end
wait("server", function() return #clients() == 1 and clients()[1].initialized end)
local line = vim.fn.search([[\<fma\.rn\.f32\>]], "w")
local text = vim.fn.getline(line)
local diagnostics = function() return vim.diagnostic.get(0) end
vim.fn.setline(line, (text:gsub("fma%.rn", "fma.rm.rn")))
wait("diagnostic", function() return #diagnostics() > 0 end)
io.stdout:write("diagnostic: " .. vim.split(diagnostics()[1].message, "\n")[1] .. "\n")
vim.fn.setline(line, text)
wait("end of the diagnostic", function() return #diagnostics() == 0 end)

local client = clients()[1]
vim.fn.cursor(line, vim.fn.match(text, "fma") + 1)
local function ask(method)
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  local answer = client:request_sync("textDocument/" .. method, params, 20000, 0)
  return assert(answer and answer.result, method .. " has no result")
end
io.stdout:write("hover: " .. vim.split(ask("hover").contents.value, "\n")[2] .. "\n")
local items = ask("completion")
assert(#(items.items or items) > 0, "no completion")

-- Colors by the grammar of tree-sitter: in a Rust file, those of PTX inside `ptx!`.
vim.treesitter.start()
local parser = vim.treesitter.get_parser()
parser:parse(true)
local captures = vim.tbl_map(function(one) return one.lang .. " @" .. one.capture end, vim.treesitter.get_captures_at_pos(0, line - 1, vim.fn.match(text, "fma")))
assert(vim.tbl_contains(captures, "ptx @function"), "no color of PTX: " .. vim.inspect(captures))
parser:for_each_tree(function(tree, one)
  assert(one:lang() ~= "ptx" or not tree:root():has_error(), "an error in the tree of PTX")
end)
io.stdout:write("colors: " .. table.concat(captures, ", ") .. "\n")
vim.cmd("qa!")
