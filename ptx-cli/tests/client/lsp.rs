//! `ptx lsp`, driven over its pipes as an editor does.

use ptx_expand::temp_dir::TempDir;
use ptx_lsp::document::{Document, Language};
use ptx_lsp::{outline, paint};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const URI: &str = "file:///k.ptx";

struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: i64,
    /// The diagnostics that came last, by their document.
    published: Vec<(String, Value)>,
}

impl Server {
    /// A server that is not initialized.
    fn start() -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ptx"))
            .args(["lsp", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Server { child, input, output, next: 0, published: Vec::new() }
    }

    fn initialized() -> Server {
        let mut server = Server::start();
        let capabilities = json!({"textDocument": {"publishDiagnostics": {"relatedInformation": true}}});
        let answer =
            server.request("initialize", &json!({"processId": null, "rootUri": null, "capabilities": capabilities}));
        assert_eq!(answer["result"]["capabilities"]["positionEncoding"], "utf-16");
        server.notify("initialized", &json!({}));
        server
    }

    fn bytes(&mut self, text: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(text).unwrap();
        input.flush().unwrap();
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        self.bytes(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn receive(&mut self) -> Option<Value> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().unwrap(),
                None if line == "\r\n" => break,
                None => panic!("an unexpected header {line:?}"),
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).unwrap();
        Some(serde_json::from_slice(&body).unwrap())
    }

    /// The next message that is an answer.
    fn answer(&mut self) -> Value {
        loop {
            let message = self.receive().expect("the server has ended");
            if message["method"] == "textDocument/publishDiagnostics" {
                let params = &message["params"];
                self.published.push((params["uri"].as_str().unwrap().to_owned(), params.clone()));
                continue;
            }
            return message;
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = self.answer();
        assert_eq!(answer["id"], id, "{method}: {answer}");
        answer
    }

    /// The result of a request about the document.
    fn ask(&mut self, method: &str, more: &Value) -> Value {
        let mut params = json!({"textDocument": {"uri": URI}});
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        let answer = self.request(&format!("textDocument/{method}"), &params);
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn open(&mut self, text: &str) {
        let document = json!({"uri": URI, "languageId": "ptx", "version": 1, "text": text});
        self.notify("textDocument/didOpen", &json!({"textDocument": document}));
    }

    fn change(&mut self, version: i64, range: Value, text: &str) {
        let params = json!({
            "textDocument": {"uri": URI, "version": version},
            "contentChanges": [{"range": range, "text": text}],
        });
        self.notify("textDocument/didChange", &params);
    }

    /// The diagnostics of a version.
    fn diagnostics(&mut self, version: i64) -> Vec<Value> {
        loop {
            let found = self.published.iter().find(|(uri, params)| uri == URI && params["version"] == version);
            if let Some((_, params)) = found {
                return params["diagnostics"].as_array().unwrap().clone();
            }
            let message = self.receive().expect("the server has ended");
            assert_eq!(message["method"], "textDocument/publishDiagnostics", "{message}");
            self.published.push((URI.to_owned(), message["params"].clone()));
        }
    }

    /// Ends the server; its exit code.
    fn stop(mut self) -> i32 {
        assert_eq!(self.request("shutdown", &Value::Null)["result"], Value::Null);
        self.notify("exit", &Value::Null);
        self.child.wait().unwrap().code().unwrap()
    }
}

fn at(line: u32, character: u32) -> Value {
    json!({"line": line, "character": character})
}

fn span(line: u32, from: u32, to: u32) -> Value {
    json!({"start": at(line, from), "end": at(line, to)})
}

fn labels(result: &Value) -> Vec<&str> {
    result["items"].as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap()).collect()
}

const KERNEL: &str = ".version 8.0
.target sm_80
.address_size 64
// é𝄞 counts three units
.visible .entry scale(.param .f32 factor, .param .u64 out)
{
    .reg .u32 %r<2>;
    .reg .u64 %rd<3>;
    .reg .f32 value; // the product
    .reg .pred %p;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    setp.eq.u32 %p, %r1, 0;
    @%p bra DONE;
    cvt.rn.f32.u32 value, %r1;
    add.u64 %rd1, %rd1, %rd2;
    st.globl.f32 [%rd1], value;
DONE:
    ret;
}
";

#[test]
fn an_editor_session() {
    let mut server = Server::initialized();
    server.open(KERNEL);
    let found = server.diagnostics(1);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["range"], span(17, 6, 12));
    assert_eq!((&found[0]["code"], &found[0]["source"]), (&json!("P0202"), &json!("ptx")));
    assert_eq!(found[0]["relatedInformation"][0]["message"], "help: did you mean `.global`?");
    let actions = server.ask("codeAction", &json!({"range": span(17, 8, 8), "context": {"diagnostics": []}}));
    let edit = &actions[0]["edit"]["changes"][URI][0];
    assert_eq!((&edit["newText"], &edit["range"]), (&json!(".global"), &span(17, 6, 12)), "{actions}");
    server.change(2, edit["range"].clone(), ".global");
    assert_eq!(server.diagnostics(2), [] as [Value; 0]);

    let hover = |server: &mut Server, line, character| {
        let hover = server.ask("hover", &json!({"position": at(line, character)}));
        hover["contents"]["value"].as_str().unwrap_or_default().to_owned()
    };
    let form = hover(&mut server, 12, 5);
    assert!(form.contains("mul.wide.type d, a, b;") && form.contains("section 9.7.1.3"), "{form}");
    assert!(hover(&mut server, 12, 14).starts_with("`.u32`, a choice of `.type`: 32 bits"));
    let value = hover(&mut server, 17, 27);
    assert!(value.contains(".reg .f32 value;") && value.contains("the product"), "{value}");
    assert!(value.contains("written on line 16  \nread on line 18"), "{value}");
    assert!(hover(&mut server, 10, 19).contains("`%rd1`, one of"));
    assert!(hover(&mut server, 11, 19).contains("%tid.x .u32"));
    assert!(hover(&mut server, 10, 25).contains(".param .u64 out"));
    assert!(hover(&mut server, 1, 9).contains("`sm_80`, since PTX 7.0"));

    // `é𝄞 counts` ends before unit 3 + 4 + 6 of its line.
    assert_eq!(server.ask("definition", &json!({"position": at(14, 14)}))["range"], span(18, 0, 4));
    assert_eq!(server.ask("definition", &json!({"position": at(10, 25)}))["range"], span(4, 54, 57));
    let uses = server.ask("references", &json!({"position": at(16, 12), "context": {"includeDeclaration": true}}));
    assert_eq!(uses.as_array().unwrap().len(), 5, "{uses}");
    let shown = server.ask("documentHighlight", &json!({"position": at(15, 20)}));
    let kinds: Vec<&Value> = shown.as_array().unwrap().iter().map(|found| &found["kind"]).collect();
    assert_eq!(kinds, [3, 3, 2]);
    let renamed = server.ask("rename", &json!({"position": at(7, 15), "newName": "%addr"}));
    let edits = renamed["changes"][URI].as_array().unwrap();
    assert_eq!((edits.len(), &edits[1]["newText"]), (7, &json!("%addr1")), "{renamed}");
    let refused = |server: &mut Server, place: Value, name: &str| {
        let params = json!({"textDocument": {"uri": URI}, "position": place, "newName": name});
        server.request("textDocument/rename", &params)["error"]["message"].as_str().unwrap().to_owned()
    };
    assert!(refused(&mut server, at(16, 12), "x").contains("`%rd1` is one of the range `%rd<…>`"));
    assert!(refused(&mut server, at(15, 20), "out").contains("`out` is declared already"));
    assert!(refused(&mut server, at(15, 20), "1x").contains("is not a name of PTX"));
    assert!(refused(&mut server, at(11, 19), "x").contains("is a special register"));

    let symbols = server.ask("documentSymbol", &json!({}));
    let names: Vec<&Value> = symbols[0]["children"].as_array().unwrap().iter().map(|symbol| &symbol["name"]).collect();
    assert_eq!((&symbols[0]["name"], names), (&json!("scale"), vec![&json!("factor"), &json!("out"), &json!("DONE")]));
    assert_eq!(server.ask("foldingRange", &json!({}))[0], json!({"startLine": 5, "endLine": 20}));
    let hints = server.ask("inlayHint", &json!({"range": {"start": at(0, 0), "end": at(30, 0)}}));
    assert_eq!(hints[0]["label"], " ↓19", "{hints}");
    let grown = server.ask("selectionRange", &json!({"positions": [at(16, 14)]}));
    assert_eq!((&grown[0]["range"], &grown[0]["parent"]["range"]), (&span(16, 12, 16), &span(16, 4, 29)), "{grown}");
    let formatted = server.ask("formatting", &json!({"options": {}}));
    assert!(formatted[0]["newText"].as_str().unwrap().contains("scale(\n    .param .f32 factor,\n"), "{formatted}");
    let tokens = server.ask("semanticTokens/full", &json!({}));
    assert_eq!(tokens["data"].as_array().unwrap()[..10], [0, 0, 8, 3, 0, 0, 9, 3, 8, 0]);
    server.change(3, span(19, 4, 4), "mov.u32 %r0, ");
    let delta = server.ask("semanticTokens/full/delta", &json!({"previousResultId": tokens["resultId"]}));
    let whole = server.ask("semanticTokens/full", &json!({}))["data"].as_array().unwrap().clone();
    let mut patched = tokens["data"].as_array().unwrap().clone();
    let edit = &delta["edits"][0];
    let number = |name: &str| edit[name].as_u64().unwrap() as usize;
    patched.splice(number("start")..number("start") + number("deleteCount"), edit["data"].as_array().unwrap().clone());
    assert_eq!(patched, whole);
    assert_eq!(server.stop(), 0);
}

#[test]
fn completion_knows_the_instruction() {
    let mut server = Server::initialized();
    server.open(KERNEL);
    let mut version = 1;
    let mut typed = |text: &str| {
        // In place of `ret`, and taken back.
        let width = text.len() as u32;
        server.change(version + 1, span(19, 4, 8), text);
        let result = server.ask("completion", &json!({"position": at(19, 4 + width)}));
        let forms = server.ask("signatureHelp", &json!({"position": at(19, 4 + width)}));
        server.change(version + 2, span(19, 4, 4 + width), "ret;");
        version += 2;
        (result, forms)
    };
    let (result, _) = typed("wg");
    assert!(labels(&result).contains(&"wgmma"), "{result}");
    let (result, _) = typed("ld.global.");
    let words = labels(&result);
    assert!(words.contains(&".f32") && words.contains(&".nc") && !words.contains(&".shared"), "{words:?}");
    let (result, _) = typed("cp.async.bulk.");
    assert!(labels(&result).contains(&".tensor") && labels(&result).contains(&".commit_group"), "{result}");
    let (result, forms) = typed("add.f32 value, ");
    let best: Vec<&str> = result["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["sortText"].as_str().unwrap().starts_with('0'))
        .map(|item| item["label"].as_str().unwrap())
        .collect();
    assert_eq!(best, ["value"], "{result}");
    assert_eq!(forms["activeParameter"], 1);
    assert_eq!(forms["signatures"][0]["parameters"][1]["label"], json!([30, 31]), "{forms}");
    let (result, _) = typed("bra ");
    assert_eq!(labels(&result), ["DONE"]);
    let (result, _) = typed("mov.u32 %r1, %ti");
    assert!(labels(&result).contains(&"%tid.x"), "{result}");
    assert_eq!(result["items"][0]["textEdit"]["range"], span(19, 17, 20));
    let (result, _) = typed("@%");
    assert_eq!(labels(&result)[0], "%p");
    let (result, _) = typed("ld.param.f32 value, [");
    assert!(labels(&result).contains(&"factor"), "{result}");
    let (result, _) = typed("// ld.");
    assert_eq!(labels(&result), [] as [&str; 0]);
    let (result, _) = typed(".reg .");
    assert!(labels(&result).contains(&".b128"), "{result}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_rules_of_the_protocol() {
    let mut server = Server::start();
    let code = |answer: &Value| answer["error"]["code"].as_i64().unwrap();
    assert_eq!(code(&server.request("textDocument/hover", &json!({}))), -32002);
    server.notify("textDocument/didOpen", &json!({}));
    assert!(server.request("initialize", &json!({"capabilities": {}}))["result"].is_object());
    assert_eq!(code(&server.request("initialize", &json!({}))), -32600);
    assert_eq!(code(&server.request("textDocument/unknown", &json!({}))), -32601);
    assert_eq!(code(&server.request("$/unknown", &json!({}))), -32601);
    assert_eq!(code(&server.request("textDocument/hover", &json!({}))), -32602);
    let missing =
        server.request("textDocument/hover", &json!({"textDocument": {"uri": "file:///none"}, "position": at(0, 0)}));
    assert_eq!((code(&missing), missing["error"]["message"].as_str()), (-32803, Some("`file:///none` is not open")));
    server.notify("$/unknown", &json!({}));
    server.notify("textDocument/didChange", &json!({"textDocument": {"uri": "file:///none"}, "contentChanges": 1}));
    for (bytes, expected) in [
        (&b"Content-Length: 4\r\n\r\n{\"a}"[..], -32700),
        (b"Content-Type: x\r\n\r\n", -32700),
        (b"Content-Length: 2\r\n\r\n[]", -32600),
        (b"Content-Length: 1\r\n\r\n1", -32600),
        (b"Content-Length: 8\r\n\r\n{\"id\":1}", -32600),
    ] {
        server.bytes(bytes);
        assert_eq!(code(&server.answer()), expected);
    }
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "result": null}));
    // Of a request and its cancellation that come together, the request is refused, unless it was begun before.
    server.open(KERNEL);
    let request = |id: &str| {
        let params = json!({"textDocument": {"uri": URI}});
        json!({"jsonrpc": "2.0", "id": id, "method": "textDocument/documentSymbol", "params": params}).to_string()
    };
    let cancel = json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "b"}}).to_string();
    let framed = |text: String| format!("Content-Length: {}\r\n\r\n{text}", text.len());
    let all = [request("a"), request("b"), cancel].map(framed).concat();
    server.bytes(all.as_bytes());
    let answers = [server.answer(), server.answer()];
    let of = |id: &str| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert!(of("a")["result"].is_array());
    assert!(of("b")["error"]["code"] == -32800 || of("b")["result"].is_array());
    let page = server.request("ptx/explain", &json!({"code": "P0202"}))["result"]["text"].to_string();
    assert!(page.contains("unknown modifier"), "{page}");
    assert_eq!(server.request("shutdown", &Value::Null)["result"], Value::Null);
    assert_eq!(code(&server.request("textDocument/hover", &json!({}))), -32600);
    server.notify("exit", &Value::Null);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));

    let mut abrupt = Server::initialized();
    abrupt.notify("exit", &Value::Null);
    assert_eq!(abrupt.child.wait().unwrap().code(), Some(1));
    let mut lost = Server::initialized();
    lost.input = None;
    assert_eq!(lost.child.wait().unwrap().code(), Some(1));
}

/// A generator of numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// After any changes, the pieces are those of the text.
#[test]
fn a_changed_document_is_like_a_new_one() {
    const BITS: [&str; 16] = [
        "{",
        "}",
        "/*",
        "*/",
        "\"",
        ";",
        "\r\n",
        "\r",
        "\n",
        ".",
        "é𝄞",
        "%r1",
        ".entry k()\n{\nret;\n}\n",
        ".func",
        "//",
        "",
    ];
    let function =
        |n: usize| KERNEL.split_once("// é").unwrap().1.replace("scale", &format!("k{n}")).replacen(' ', "// ", 1);
    let text: String = KERNEL.to_owned() + &(0..40).map(function).collect::<String>();
    let mut random = Random(42);
    let mut document = Document::new(text, Language::Ptx);
    for turn in 0..300 {
        let length = document.text().as_str().len();
        let start = random.below(length + 1);
        let end = (start + random.below(30)).min(length);
        let bit = BITS[random.below(BITS.len())];
        document.change(start..if turn % 3 == 0 { end } else { start }, bit);
        let fresh = Document::new(document.text().as_str().to_owned(), Language::Ptx);
        let shape = |document: &Document| {
            let names: Vec<_> =
                outline::symbols(document).into_iter().map(|symbol| (symbol.name, symbol.range)).collect();
            (names, document.text().lines())
        };
        assert_eq!(shape(&document), shape(&fresh), "after turn {turn}: {bit:?} at {start}");
        let whole = 0..document.text().as_str().len();
        assert_eq!(paint::tokens(&document, whole.clone()), paint::tokens(&fresh, whole), "after turn {turn}");
    }
}

fn corpus() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let beside = workspace.ancestors().map(|folder| folder.join("shared/corpus")).find(|path| path.is_dir());
    std::env::var_os("PTX_CORPUS").map(PathBuf::from).or(beside)
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, out),
            false if path.extension().is_some_and(|extension| extension == "ptx") => out.push(path),
            false => {}
        }
    }
}

/// Every request at several places of every file; the findings are those of `ptx check`.
#[test]
#[ignore = "needs shared/corpus, see PTX_CORPUS; in release: cargo test --release -p ptx-cli --test commands corpus -- --ignored --nocapture"]
fn requests_over_the_corpus() {
    const AT_POSITIONS: [&str; 7] =
        ["hover", "completion", "signatureHelp", "definition", "references", "documentHighlight", "prepareRename"];
    const WHOLE: [&str; 4] = ["documentSymbol", "foldingRange", "semanticTokens/full", "formatting"];
    let mut paths = Vec::new();
    files(&corpus().expect("no corpus"), &mut paths);
    paths.sort();
    let mut server = Server::initialized();
    let mut random = Random(7);
    let mut times: Vec<(Duration, String)> = Vec::new();
    let mut keystrokes: Vec<(Duration, String)> = Vec::new();
    for path in &paths {
        let Ok(text) = String::from_utf8(std::fs::read(path).unwrap()) else { continue };
        server.published.clear();
        server.open(&text);
        let found = server.diagnostics(1);
        assert_same(path, &text, &found);
        let lines: Vec<&str> = text.lines().collect();
        let mut timed = |server: &mut Server, method: &str, params: Value| {
            let start = Instant::now();
            let mut all = json!({"textDocument": {"uri": URI}});
            all.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
            let answer = server.request(&format!("textDocument/{method}"), &all);
            let refused = answer["error"]["code"].as_i64();
            assert!(refused.is_none_or(|code| code == -32803), "{}: {method}: {answer}", path.display());
            times.push((start.elapsed(), format!("{method} {}", path.display())));
        };
        for method in WHOLE {
            timed(&mut server, method, json!({"options": {}}));
        }
        for version in 2..12 {
            let line = random.below(lines.len());
            let character = random.below(lines.get(line).map_or(0, |line| line.len()));
            let place = at(line as u32, character as u32);
            for method in AT_POSITIONS {
                timed(&mut server, method, json!({"position": place, "context": {"includeDeclaration": true}}));
            }
            let around = json!({"start": place, "end": at(line as u32 + 60, 0)});
            timed(&mut server, "inlayHint", json!({"range": around}));
            timed(&mut server, "semanticTokens/range", json!({"range": around}));
            timed(&mut server, "selectionRange", json!({"positions": [place]}));
            timed(&mut server, "codeAction", json!({"range": around, "context": {"diagnostics": []}}));
            // A keystroke: a letter, and the completion and the colors that an editor requests.
            let start = Instant::now();
            server.change(version, json!({"start": place, "end": place}), "x");
            server.ask("completion", &json!({"position": at(line as u32, character as u32 + 1)}));
            server.ask("semanticTokens/range", &json!({"range": around}));
            keystrokes.push((start.elapsed(), path.display().to_string()));
        }
    }
    for (name, mut times) in [("requests", times), ("keystrokes", keystrokes)] {
        times.sort();
        let percentile = |p: usize| &times[(times.len() * p / 100).min(times.len() - 1)];
        println!(
            "{name}: {} over {} files; median {:?}, 99th percentile {:?} ({})",
            times.len(),
            paths.len(),
            percentile(50).0,
            percentile(99).0,
            percentile(99).1
        );
        times.iter().rev().take(5).for_each(|(time, what)| println!("  {time:?} {what}"));
    }
    assert_eq!(server.stop(), 0);
}

/// Compares the diagnostics of the server with those of `ptx check`.
fn assert_same(path: &Path, text: &str, found: &[Value]) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_ptx")).args(["check", "--format", "json"]).arg(path).output().unwrap();
    let checked: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let plain = |diagnostic: &Value| {
        let start = &diagnostic["range"]["start"];
        let line = text.split('\n').nth(start["line"].as_u64().unwrap() as usize).unwrap_or_default();
        let units: Vec<u16> = line.encode_utf16().take(start["character"].as_u64().unwrap() as usize).collect();
        let column = String::from_utf16_lossy(&units).chars().count() as u64 + 1;
        let severity = if diagnostic["severity"] == 1 { "error" } else { "warning" };
        (
            start["line"].as_u64().unwrap() + 1,
            column,
            severity.to_owned(),
            diagnostic["code"].clone(),
            diagnostic["message"].clone(),
        )
    };
    let told = |line: &Value| {
        let number = |name: &str| line[name].as_u64().unwrap();
        (
            number("line"),
            number("column"),
            line["severity"].as_str().unwrap().to_owned(),
            line["code"].clone(),
            line["message"].clone(),
        )
    };
    let (found, checked): (Vec<_>, Vec<_>) = (found.iter().map(plain).collect(), checked.iter().map(told).collect());
    assert_eq!(found, checked, "{}", path.display());
}

const RUST: &str = "use ptx_launch::ptx_kernel;
struct Pair { first: f32, pub second: u32 }
#[ptx_kernel(arch = \"sm_80\", block = 128, requires(out.len() >= n))]
pub fn scale(factor: f32, out: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    let pair: Pair;
    if i < n {
        let at = out.at(i);
        let mut value: f32; // '{' and \"ptx! {\" are no code
        ptx! { ld.global.f32 value, [at]; }
        value = value * factor;
        ptx! { st.global.f32 [at], value; }
    }
}
";

#[test]
fn kernels_in_rust() {
    let mut server = Server::initialized();
    let open = |server: &mut Server, version: i64, text: &str| {
        let document = json!({"uri": URI, "languageId": "rust", "version": version, "text": text});
        server.notify("textDocument/didOpen", &json!({"textDocument": document}));
    };
    open(&mut server, 1, &RUST.replace("    let pair: Pair;\n", ""));
    assert_eq!(server.diagnostics(1), [] as [Value; 0]);
    let whole = json!({"range": {"start": at(0, 0), "end": at(20, 0)}});
    let hints = server.ask("inlayHint", &whole);
    let of_line = |line: u32| {
        let found = hints.as_array().unwrap().iter().find(|hint| hint["position"]["line"] == line);
        found.map(|hint| hint["label"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    assert!(of_line(9).contains("mul.f32") || of_line(9).contains("mul.rn.f32"), "{hints}");
    open(&mut server, 2, RUST);
    let hover = |server: &mut Server, line, character| {
        let hover = server.ask("hover", &json!({"position": at(line, character)}));
        hover["contents"]["value"].as_str().unwrap_or_default().to_owned()
    };
    assert!(hover(&mut server, 9, 16).contains("section 9.7.9"), "{}", hover(&mut server, 9, 16));
    assert!(hover(&mut server, 9, 30).contains("let value: f32\n```\ndeclared on line 9"));
    assert!(hover(&mut server, 4, 40).contains("%tid.x .u32"));
    assert_eq!(server.ask("definition", &json!({"position": at(9, 38)}))["range"], span(7, 12, 14));
    let mut version = 2;
    let mut typed = |line: u32, from: u32, to: u32, text: &str| {
        server.change(version + 1, span(line, from, to), text);
        let end = from + text.len() as u32;
        let result = server.ask("completion", &json!({"position": at(line, end)}));
        version += 1;
        labels(&result).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(typed(9, 15, 41, "add.f32 value, ")[0].contains("value"));
    assert_eq!(typed(10, 8, 31, "let x = tid."), ["w", "x", "y", "z"]);
    assert!(typed(10, 8, 20, "warp::").contains(&"reduce_sum".to_owned()));
    assert_eq!(typed(10, 8, 14, "pair."), ["first", "second"]);
    assert_eq!(server.stop(), 0);
}

/// A kernel may take structs and parts of other files of its crate, by paths through a `use`.
#[test]
fn a_file_of_a_crate_is_checked_with_the_others() {
    let folder = TempDir::new("ptx lsp").unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("Cargo.toml", "");
    write("src/lib.rs", "mod gemm;\nmod other;\npub use gemm::shapes::Shape;\n");
    write("src/gemm.rs", "pub mod shapes;\nmod kernel;\n");
    write("src/gemm/shapes.rs", "#[derive(KernelParam)]\n#[repr(C)]\npub struct Shape { rows: u32, scale: f32 }\n");
    write(
        "src/other.rs",
        "#[derive(KernelParam)]\n#[repr(C)]\npub struct Shape { other: u64 }\n#[ptx_part]\npub mod sums { fn twice(x: u32) -> u32 { x * 2 } }\n",
    );
    let kernel = "use super::super::Shape;
#[ptx_module(arch = \"sm_80\", params(Shape), parts(crate::other::sums))]
mod kernels {
    #[ptx_kernel(block = 32)]
    fn k(shape: Shape, out: &mut [u32]) {
        let rows: u32 = twice(shape.rows);
        let at = out.at(tid.x);
        ptx! { st.global.u32 [at], rows; }
    }
}
";
    let path = folder.path().join("src/gemm/kernel.rs").display().to_string().replace(' ', "%20");
    let mut server = Server::initialized();
    let mut found = |version: i64, text: &str| {
        let document = json!({"uri": format!("file://{path}"), "languageId": "rust", "version": version, "text": text});
        server.notify("textDocument/didOpen", &json!({"textDocument": document}));
        let found = server.diagnostics(version);
        found.iter().map(|one| one["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(1, kernel), [] as [&str; 0]);
    let wrong = found(2, &kernel.replace("shape.rows", "shape.other"));
    assert!(wrong[0].contains("other"), "{wrong:?}");
    let missing = found(3, &kernel.replace("other::sums", "other::products"));
    assert!(missing[0].contains("the part `products` is not in this text"), "{missing:?}");
}

/// No request on no text makes the server panic: it answers the next one.
#[test]
fn any_text_is_answered() {
    let mut random = Random(99);
    let texts =
        [KERNEL, RUST, "ptx!{", "/*", "\"", "@", "r#\"", "'", "\u{feff}", ".reg .b32 %r<99999999999>;", "é𝄞\r\r\n"];
    let mut server = Server::initialized();
    for turn in 0..60 {
        let source = texts[random.below(texts.len())];
        let cut: String = source.chars().skip(random.below(40)).take(random.below(2000)).collect();
        let text = cut + texts[random.below(texts.len())];
        let language = ["ptx", "rust"][turn % 2];
        let document = json!({"uri": URI, "languageId": language, "version": turn, "text": text});
        server.notify("textDocument/didOpen", &json!({"textDocument": document}));
        let line = random.below(text.lines().count() + 2);
        let place = at(line as u32, random.below(40) as u32);
        let range = json!({"start": at(line as u32 / 2, 0), "end": at(u32::MAX, u32::MAX)});
        for (method, more) in [
            ("hover", json!({"position": place})),
            ("completion", json!({"position": place})),
            ("signatureHelp", json!({"position": place})),
            ("definition", json!({"position": place})),
            ("references", json!({"position": place})),
            ("rename", json!({"position": place, "newName": "other"})),
            ("selectionRange", json!({"positions": [place]})),
            ("documentSymbol", json!({})),
            ("foldingRange", json!({})),
            ("semanticTokens/full", json!({})),
            ("semanticTokens/range", json!({"range": range})),
            ("inlayHint", json!({"range": range})),
            ("codeAction", json!({"range": range, "context": {}})),
            ("formatting", json!({})),
        ] {
            let mut params = more.clone();
            params["textDocument"] = json!({"uri": URI});
            server.request(&format!("textDocument/{method}"), &params);
        }
    }
    assert_eq!(server.stop(), 0);
}
