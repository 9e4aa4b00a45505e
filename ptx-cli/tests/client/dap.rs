//! `ptx debug`, driven over its pipes as an editor does.

use ptx_expand::temp_dir::TempDir;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Adapter {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    seq: i64,
    events: VecDeque<Value>,
}

impl Adapter {
    fn start() -> Adapter {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ptx"))
            .arg("debug")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut adapter = Adapter { child, input, output, seq: 0, events: VecDeque::new() };
        assert_eq!(adapter.ask("initialize", json!({"adapterID": "ptx"}))["supportsConfigurationDoneRequest"], true);
        assert_eq!(adapter.event()["event"], "initialized");
        adapter
    }

    fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the adapter has ended");
            match line.trim_end().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().unwrap(),
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    fn response(&mut self, command: &str, arguments: Value) -> Value {
        self.seq += 1;
        let text = json!({"seq": self.seq, "type": "request", "command": command, "arguments": arguments}).to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
        self.input.flush().unwrap();
        loop {
            let message = self.receive();
            if message["type"] == "event" {
                self.events.push_back(message);
                continue;
            }
            assert_eq!(message["request_seq"], self.seq, "{message}");
            return message;
        }
    }

    /// The body of the response to a request that succeeds.
    fn ask(&mut self, command: &str, arguments: Value) -> Value {
        let response = self.response(command, arguments);
        assert_eq!(response["success"], true, "{response}");
        response["body"].clone()
    }

    fn event(&mut self) -> Value {
        match self.events.pop_front() {
            Some(event) => event,
            None => self.receive(),
        }
    }

    /// The line, the reason and the warp of the next stop.
    fn stop(&mut self) -> (u64, String, u64) {
        let event = self.event();
        assert_eq!(event["event"], "stopped", "{event}");
        let thread = event["body"]["threadId"].clone();
        let frames = self.ask("stackTrace", json!({"threadId": thread}));
        let line = frames["stackFrames"][0]["line"].as_u64().unwrap();
        (line, event["body"]["reason"].as_str().unwrap().to_owned(), thread.as_u64().unwrap() - 1)
    }

    fn evaluate(&mut self, text: &str) -> String {
        self.ask("evaluate", json!({"expression": text}))["result"].as_str().unwrap().to_owned()
    }

    /// The names and values of a scope of the stopped warp.
    fn scope(&mut self, warp: u64, number: usize) -> Vec<(String, String, u64)> {
        let scopes = self.ask("scopes", json!({"frameId": (warp + 1) << 16}));
        let reference = scopes["scopes"][number]["variablesReference"].clone();
        self.inside(reference)
    }

    fn inside(&mut self, reference: Value) -> Vec<(String, String, u64)> {
        let listed = self.ask("variables", json!({"variablesReference": reference}));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let item = |one: &Value| (text(&one["name"]), text(&one["value"]), one["variablesReference"].as_u64().unwrap());
        listed["variables"].as_array().unwrap().iter().map(item).collect()
    }

    fn end(mut self) {
        self.ask("disconnect", json!({}));
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

/// Warp 0 writes a word of shared memory, warp 1 waits at the barrier.
const MEET: &str = ".version 8.0
.target sm_80
.address_size 64
.shared .align 4 .u32 word;
.visible .entry meet()
{
    .reg .u32 %r<4>;
    .reg .f32 %f;
    .reg .pred %p;
    mov.u32 %r1, %tid.x;
    mov.f32 %f, 0f40200000;
    setp.ge.u32 %p, %r1, 32;
    @%p bra WAIT;
    mov.u32 %r2, 7;
    st.shared.u32 [word], %r2;
WAIT:
    bar.sync 0;
    ld.shared.u32 %r3, [word];
    ret;
}
";

#[test]
fn a_kernel_in_the_debugger() {
    let folder = TempDir::new("ptx-debug").unwrap();
    let path = folder.path().join("meet.ptx");
    std::fs::write(&path, MEET).unwrap();
    let path = path.to_str().unwrap();
    let mut adapter = Adapter::start();
    let refused = adapter.response("launch", json!({"program": path, "args": ["--blok", "64"]}));
    assert!(refused["message"].as_str().unwrap().contains("--blok"), "{refused}");
    adapter.ask("launch", json!({"program": path, "args": "--block 64 --no-watch", "stopOnEntry": true}));
    let lines = json!({"source": {"path": path}, "breakpoints": [{"line": 9}, {"line": 18}, {"line": 99}]});
    let set = adapter.ask("setBreakpoints", lines);
    let verified: Vec<&Value> = set["breakpoints"].as_array().unwrap().iter().map(|one| &one["verified"]).collect();
    assert_eq!(
        (verified, &set["breakpoints"][0]["line"]),
        (vec![&json!(true), &json!(true), &json!(false)], &json!(10))
    );
    adapter.ask("configurationDone", json!({}));
    assert_eq!(adapter.stop(), (10, "entry".to_owned(), 0));
    let threads = adapter.ask("threads", json!({}));
    assert_eq!(threads["threads"].as_array().unwrap().len(), 2, "{threads}");
    adapter.ask("next", json!({"threadId": 1}));
    assert_eq!(adapter.stop(), (11, "step".to_owned(), 0));
    assert_eq!(adapter.evaluate("%r1@5"), "5 = 0x5");
    adapter.evaluate("lane 3");
    adapter.ask("stepIn", json!({"threadId": 1}));
    assert_eq!(adapter.stop(), (12, "step".to_owned(), 0));
    assert_eq!((adapter.evaluate("%r1"), adapter.evaluate("%f")), ("3 = 0x3".to_owned(), "2.5".to_owned()));
    let registers = adapter.scope(0, 0);
    let (_, value, inside) = registers.iter().find(|(name, ..)| name == "%r1").unwrap().clone();
    assert_eq!((value.as_str(), adapter.inside(inside.into()).len()), ("3 = 0x3", 32));
    // The first warp waits when the second one gets to the same instruction.
    adapter.ask("continue", json!({"threadId": 1}));
    assert_eq!(adapter.stop(), (10, "breakpoint".to_owned(), 1));
    let why = adapter.ask("evaluate", json!({"expression": "why", "frameId": 1 << 16}));
    let why = why["result"].as_str().unwrap();
    assert_eq!(why, "32 lanes (0 to 31): waits at barrier 0 for all threads of the block; 32 have arrived");
    let shared = adapter.scope(1, 1);
    assert_eq!((shared[0].0.as_str(), shared[0].1.as_str()), ("word", "4 bytes at 0x0"));
    assert!(adapter.inside(shared[0].2.into())[0].1.starts_with("0x00000007 = 7 = "));
    adapter.ask("setBreakpoints", json!({"source": {"path": path}, "breakpoints": [{"line": 18}]}));
    adapter.ask("continue", json!({"threadId": 1}));
    assert_eq!(adapter.stop().0, 18);
    adapter.ask("setBreakpoints", json!({"source": {"path": path}, "breakpoints": []}));
    adapter.ask("continue", json!({"threadId": 1}));
    let ended = adapter.event();
    assert_eq!((&ended["event"], &ended["body"]["exitCode"]), (&json!("exited"), &json!(0)), "{ended}");
    assert_eq!(adapter.event()["event"], "terminated");
    let late = adapter.response("continue", json!({"threadId": 1}));
    assert_eq!((&late["success"], &late["message"]), (&json!(false), &json!("the kernel is not stopped")));
    adapter.end();
}

#[test]
fn breakpoints_on_lines_of_rust() {
    let folder = TempDir::new("ptx-debug").unwrap();
    let path = folder.path().join("k.rs");
    let text = "#[ptx_kernel(arch = \"sm_80\", block = 32)]\nfn k(n: u32) {\n    let mut i: u32 = tid.x;\n    i = i * n;\n    i = i + 1;\n    ptx! { add.u32 i, i, 0; }\n}\n";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let mut adapter = Adapter::start();
    adapter.ask("launch", json!({"program": path, "args": ["--block", "32", "--arg", "u32:3"]}));
    let set = adapter.ask("setBreakpoints", json!({"source": {"path": path}, "breakpoints": [{"line": 5}]}));
    assert_eq!(set["breakpoints"][0], json!({"verified": true, "line": 5}));
    adapter.ask("configurationDone", json!({}));
    assert_eq!(adapter.stop(), (5, "breakpoint".to_owned(), 0));
    assert_eq!(adapter.evaluate("i@4"), "12 = 0xc");
    adapter.ask("next", json!({"threadId": 1}));
    assert_eq!((adapter.stop().0, adapter.evaluate("i@4")), (6, "13 = 0xd".to_owned()));
    adapter.end();
}

/// The files of arguments are found beside the program, or in the folder that `cwd` names, wherever the editor starts the adapter.
#[test]
fn files_of_arguments_are_found() {
    let folder = TempDir::new("ptx-debug").unwrap();
    let path = folder.path().join("k.ptx");
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n    ret;\n}\n";
    std::fs::write(&path, text).unwrap();
    std::fs::write(folder.path().join("in.bin"), [0; 4]).unwrap();
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    for (cwd, succeeds) in [(None, true), (Some(folder.path()), true), (Some(other.as_path()), false)] {
        let mut adapter = Adapter::start();
        adapter.ask("launch", json!({"program": path, "args": "--arg @in.bin", "cwd": cwd}));
        adapter.ask("configurationDone", json!({}));
        let mut events = std::iter::from_fn(|| Some(adapter.event()));
        let exited = events.find(|event| event["event"] == "exited").unwrap();
        assert_eq!(exited["body"]["exitCode"] == 0, succeeds, "{cwd:?}: {exited}");
        adapter.end();
    }
}

/// Shared memory shows the fields of its structs, by their types.
#[test]
fn shared_memory_has_the_fields_of_its_structs() {
    let folder = TempDir::new("ptx-debug").unwrap();
    let path = folder.path().join("k.rs");
    let text = r#"#[ptx_module(arch = "sm_80")]
mod kernels {
    struct Half { values: [[f16; 2]; 16], count: s32 }
    struct Stage { halves: [Half; 2], total: f64 }
    #[ptx_kernel(block = 32)]
    fn k() {
        #[shared]
        let (stage, word): (Stage, u32);
        if tid.x == 0 {
            let half = stage.halves.at(1);
            let to = half.values.at(15, 1);
            ptx! { st.shared.b16 [to], 0xc100; st.shared.s32 [half.count], -3; }
        }
        block::sync();
    }
}
"#;
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let mut adapter = Adapter::start();
    adapter.ask("launch", json!({"program": path}));
    adapter.ask("setBreakpoints", json!({"source": {"path": path}, "breakpoints": [{"line": 14}]}));
    adapter.ask("configurationDone", json!({}));
    adapter.stop();
    let shared = adapter.scope(0, 1);
    let stage = shared.iter().find(|(name, ..)| name == "stage").unwrap();
    let fields = adapter.inside(stage.2.into());
    let names: Vec<_> = fields.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["halves[0].values", "halves[0].count", "halves[1].values", "halves[1].count", "total"]);
    let elements = adapter.inside(fields[2].2.into());
    assert_eq!((elements.len(), &elements[31].0, &elements[31].1), (32, &"[15][1]".to_owned(), &"-2.5".to_owned()));
    assert_eq!(adapter.evaluate("stage.halves[1].values[15][1]"), "-2.5");
    assert!(adapter.evaluate("stage.halves[1].count").starts_with("-3"));
    assert!(adapter.evaluate("stage").ends_with("\ntotal: 0.0"));
    assert_eq!(adapter.evaluate("word"), "0 = 0x0");
    let missing = adapter.response("evaluate", json!({"expression": "stage.halves[1].values[16][0]"}));
    assert_eq!(missing["success"], false);
    adapter.end();
}
