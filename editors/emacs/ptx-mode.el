;;; ptx-mode.el --- NVIDIA PTX -*- lexical-binding: t -*-

(defvar eglot-server-programs)
(declare-function eglot-ensure "eglot")

(defvar ptx-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?/ ". 124b" table)
    (modify-syntax-entry ?* ". 23" table)
    (modify-syntax-entry ?\n "> b" table)
    table))

(define-derived-mode ptx-mode prog-mode "PTX"
  "A mode for NVIDIA PTX."
  (setq-local comment-start "// ")
  (setq-local font-lock-defaults
              '((("\\.[a-zA-Z_][a-zA-Z0-9_:]*" . font-lock-type-face)
                 ("[%$][a-zA-Z_][a-zA-Z0-9_]*" . font-lock-variable-name-face)
                 ("^\\s-*\\([%$a-zA-Z0-9_]+\\):" 1 font-lock-constant-face)
                 ("^\\s-*\\(?:[%$a-zA-Z0-9_]+:\\s-*\\)?\\(?:@!?[%$a-zA-Z0-9_]+\\s-+\\)?\\([a-z][a-z0-9_]*\\)\\_>[^:]"
                  1 font-lock-keyword-face)))))

(add-to-list 'auto-mode-alist '("\\.ptx\\'" . ptx-mode))
(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs '(ptx-mode . ("ptx" "lsp"))))
(when (require 'eglot nil t)
  (add-hook 'ptx-mode-hook #'eglot-ensure))

(provide 'ptx-mode)
;;; ptx-mode.el ends here
