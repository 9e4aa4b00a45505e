// The extension: the server of `ptx lsp`, commands that call `ptx`, pages of diagnostics, and the debugger of `ptx debug`.
"use strict";

const vscode = require("vscode");
const path = require("path");
const { execFile } = require("child_process");
const { LanguageClient } = require("vscode-languageclient/node");

/** The scheme of the pages of diagnostics: `ptx-explain:P0202.md`. */
const EXPLAIN = "ptx-explain";

/** The running clients: one for PTX, and one for Rust with what goes beside rust-analyzer.
 * @type {LanguageClient[]} */
let clients = [];

function command() {
  return vscode.workspace.getConfiguration("ptx").get("path", "ptx");
}

function connect(language, name, options) {
  const server = { command: command(), args: ["lsp"] };
  return new LanguageClient(`ptx-${language}`, name, server, {
    documentSelector: [
      { scheme: "file", language },
      { scheme: "untitled", language },
    ],
    initializationOptions: { explain: EXPLAIN, ...options },
  });
}

/** The path of this project's `ptx`. Debian has another program of that name, the permuted index of coreutils. */
async function checked() {
  const version = await output(["--version"]);
  if (!/^ptx \d/.test(version)) {
    const found = version.split("\n")[0];
    throw new Error(`it is another program ("${found}")`);
  }
  return command();
}

async function start() {
  clients = [connect("ptx", "PTX", {})];
  if (vscode.workspace.getConfiguration("ptx").get("rust", true)) {
    clients.push(connect("rust", "PTX in Rust", { onlyRust: true }));
  }
  try {
    await checked();
    await Promise.all(clients.map((client) => client.start()));
  } catch (why) {
    const text = `The command "${command()}" cannot be started: ${why.message ?? why}. Install it with "cargo install --path ptx-cli", or set "ptx.path".`;
    if (await vscode.window.showErrorMessage(text, "Open Settings")) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "ptx.path");
    }
  }
}

async function stop() {
  await Promise.all(clients.map((client) => client.stop()));
}

/** Runs `ptx` and returns what it prints. */
function output(args) {
  return new Promise((resolve, reject) => {
    execFile(command(), args, { maxBuffer: 1 << 28 }, (error, stdout, stderr) => {
      if (error && !stdout) {
        reject(new Error(stderr.trim() || error.message));
      } else {
        resolve(stdout);
      }
    });
  });
}

/** The saved file of the active editor. */
async function activeFile() {
  const document = vscode.window.activeTextEditor?.document;
  if (!document || !["ptx", "rust"].includes(document.languageId)) {
    throw new Error("open a .ptx file, or a Rust file with kernels, first");
  }
  if (document.isUntitled || !(await document.save())) {
    throw new Error("save the file first");
  }
  return document.fileName;
}

/** Shows a text in an editor beside the active one. */
async function show(content, language) {
  const document = await vscode.workspace.openTextDocument({ content, language });
  await vscode.window.showTextDocument(document, vscode.ViewColumn.Beside);
}

/** Asks for the arguments of a launch, which are kept for the file, and runs `ptx` in a terminal. */
async function launch(context, name, more) {
  const file = await activeFile();
  const key = `launch:${file}`;
  const value = context.workspaceState.get(key, "--grid 1 --block 128 --arg out.bin:4096");
  const prompt = "One --arg for each parameter: u32:5, f32:1.5, @in.bin, out.bin:4096; --entry if there are several";
  const typed = await vscode.window.showInputBox({ title: `ptx ${name}`, value, prompt });
  if (typed === undefined) {
    return;
  }
  await context.workspaceState.update(key, typed);
  const terminal =
    vscode.window.terminals.find((one) => one.name === "PTX" && !one.exitStatus) ??
    vscode.window.createTerminal({ name: "PTX", cwd: path.dirname(file) });
  terminal.show();
  terminal.sendText(`${quoted(command())} ${name} ${quoted(file)} ${typed}${more}`);
}

function quoted(text) {
  return /^[\w./:\\-]+$/.test(text) ? text : `"${text.replaceAll('"', '\\"')}"`;
}

/** A command whose failure is shown. */
function register(context, name, action) {
  const run = async () => {
    try {
      await action();
    } catch (why) {
      vscode.window.showErrorMessage(`PTX: ${why.message}`);
    }
  };
  context.subscriptions.push(vscode.commands.registerCommand(name, run));
}

function activate(context) {
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(EXPLAIN, {
      provideTextDocumentContent: async (uri) => output(["explain", uri.path.replace(/\.md$/, "")]),
    }),
    vscode.debug.registerDebugAdapterDescriptorFactory("ptx", {
      createDebugAdapterDescriptor: async () => {
        const path = await checked().catch((why) => {
          throw new Error(`The command "${command()}" cannot be started: ${why.message}. Set "ptx.path".`);
        });
        return new vscode.DebugAdapterExecutable(path, ["debug"]);
      },
    }),
  );
  register(context, "ptx.transpile", async () => show(await output(["transpile", await activeFile()]), "rust"));
  register(context, "ptx.sass", async () => show(await output(["sass", await activeFile()]), "plaintext"));
  register(context, "ptx.run", () => launch(context, "run", ""));
  register(context, "ptx.profile", () => launch(context, "profile", ""));
  register(context, "ptx.restart", async () => {
    await stop();
    await start();
  });
  // The editor need not wait for the server.
  void start();
}

module.exports = { activate, deactivate: stop };
