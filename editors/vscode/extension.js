// The extension: the server of `ptx lsp`, commands that call `ptx`, pages of diagnostics, and the debugger of `ptx debug`.
"use strict";

const vscode = require("vscode");
const path = require("path");
const { execFile } = require("child_process");
const { mkdtemp, readFile, rm } = require("fs/promises");
const { tmpdir } = require("os");
const { LanguageClient } = require("vscode-languageclient/node");

/** The scheme of the pages of diagnostics: `ptx-explain:P0202.md`. */
const EXPLAIN = "ptx-explain";

/** The scheme of what commands print. Such a document is read-only, and closes without a question; "Save As" keeps it. */
const OUTPUT = "ptx-output";

/** What commands have printed, by the path of its document. */
const outputs = new Map();
const changed = new vscode.EventEmitter();

/** The help where the command is missing, or is another program. */
const INSTALL = 'Install it with "cargo install --path ptx-cli", or set "ptx.path" (in a remote window, in the remote settings).';

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
  const program = command();
  try {
    const version = await output(program, ["--version"]);
    if (!/^ptx \d/.test(version)) {
      const found = version.split("\n")[0];
      throw new Error(`it is another program ("${found}")`);
    }
    return program;
  } catch (why) {
    throw new Error(`The command "${program}" cannot be started: ${why.message}. ${INSTALL}`);
  }
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
    await complain(why);
  }
}

/** Shows an error, and leads to the setting where the command is not found. */
async function complain(why) {
  const text = String(why.message ?? why);
  const buttons = text.includes(INSTALL) ? ["Open Settings"] : [];
  if (await vscode.window.showErrorMessage(text, ...buttons)) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "ptx.path");
  }
}

async function stop() {
  await Promise.all(clients.map((client) => client.stop()));
}

/** Runs this project's `ptx`, in a folder if one is given, and returns what it prints. */
async function ptx(args, cwd) {
  return output(await checked(), args, cwd);
}

/** The first line of an error and its help, without the source text between them. */
function summary(text) {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter((line, index) => index === 0 || line.startsWith("help:")).join(" ");
}

/** Runs a program and returns what it prints. */
function output(program, args, cwd) {
  return new Promise((resolve, reject) => {
    execFile(program, args, { maxBuffer: 1 << 28, cwd }, (error, stdout, stderr) => {
      if (error) {
        reject(new Error(summary(stderr) || summary(stdout) || error.message));
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

/** Shows what `ptx` prints about the active file in an editor beside it. The file stays the active one, for the next command. */
async function show(words, ending, language) {
  const file = await activeFile();
  const text = await ptx([...words, file]);
  const uri = vscode.Uri.from({ scheme: OUTPUT, path: `/${path.basename(file)}${ending}` });
  outputs.set(uri.path, text);
  changed.fire(uri);
  const document = await vscode.workspace.openTextDocument(uri);
  await vscode.languages.setTextDocumentLanguage(document, language);
  await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true });
}

/** Asks for the arguments of a launch, which are kept for the file; `undefined` if the user changed their mind. */
async function launchOf(context, file, name) {
  const key = `launch:${file}`;
  const value = context.workspaceState.get(key, "--grid 1 --block 128 --arg out.bin:4096");
  const prompt = "One --arg for each parameter: u32:5, f32:1.5, @in.bin, out.bin:4096; --entry if there are several";
  const typed = await vscode.window.showInputBox({ title: `ptx ${name}`, value, prompt });
  if (typed !== undefined) {
    await context.workspaceState.update(key, typed);
  }
  return typed;
}

/** Runs the active file in a terminal. */
async function run(context) {
  const file = await activeFile();
  const program = await checked();
  const typed = await launchOf(context, file, "run");
  if (typed === undefined) {
    return;
  }
  const terminal =
    vscode.window.terminals.find((one) => one.name === "PTX" && !one.exitStatus) ??
    vscode.window.createTerminal({ name: "PTX", cwd: path.dirname(file) });
  terminal.show();
  terminal.sendText(`${quoted(program)} run ${quoted(file)} ${typed}`);
}

/** Profiles the active file, and shows the page of the report beside it. */
async function profile(context) {
  const file = await activeFile();
  const typed = await launchOf(context, file, "profile");
  if (typed === undefined) {
    return;
  }
  const folder = await mkdtemp(path.join(tmpdir(), "ptx-profile-"));
  try {
    const page = path.join(folder, "report.html");
    const progress = { location: vscode.ProgressLocation.Notification, title: `Profiling ${path.basename(file)}` };
    await vscode.window.withProgress(progress, () =>
      ptx(["profile", file, ...words(typed), "--html", page], path.dirname(file)),
    );
    const column = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
    const title = `Profile of ${path.basename(file)}`;
    const panel = vscode.window.createWebviewPanel("ptx.profile", title, column, { enableScripts: true, enableFindWidget: true });
    panel.webview.html = await readFile(page, "utf8");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The words of a command line, in which quotes keep blanks. */
function words(text) {
  const found = text.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) ?? [];
  return found.map((word) => word.replace(/"([^"]*)"|'([^']*)'/g, "$1$2"));
}

function quoted(text) {
  return /^[\w./:\\-]+$/.test(text) ? text : `"${text.replaceAll('"', '\\"')}"`;
}

/** A command whose failure is shown. */
function register(context, name, action) {
  const guarded = async () => {
    try {
      await action();
    } catch (why) {
      await complain(why);
    }
  };
  context.subscriptions.push(vscode.commands.registerCommand(name, guarded));
}

function activate(context) {
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(EXPLAIN, {
      provideTextDocumentContent: async (uri) => ptx(["explain", uri.path.replace(/\.md$/, "")]),
    }),
    vscode.workspace.registerTextDocumentContentProvider(OUTPUT, {
      onDidChange: changed.event,
      provideTextDocumentContent: (uri) => outputs.get(uri.path) ?? "",
    }),
    vscode.debug.registerDebugAdapterDescriptorFactory("ptx", {
      createDebugAdapterDescriptor: async () => new vscode.DebugAdapterExecutable(await checked(), ["debug"]),
    }),
  );
  register(context, "ptx.transpile", () => show(["transpile", "--sugar"], ".rs", "rust"));
  register(context, "ptx.sass", () => show(["sass"], ".sass", "plaintext"));
  register(context, "ptx.run", () => run(context));
  register(context, "ptx.profile", () => profile(context));
  register(context, "ptx.restart", async () => {
    await stop();
    await start();
  });
  // The editor need not wait for the server.
  void start();
}

module.exports = { activate, deactivate: stop };
