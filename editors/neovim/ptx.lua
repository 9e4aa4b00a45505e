vim.filetype.add({ extension = { ptx = "ptx" } })
vim.lsp.config("ptx", { cmd = { "ptx", "lsp" }, filetypes = { "ptx", "rust" }, root_markers = { ".git" } })
vim.lsp.enable("ptx")
