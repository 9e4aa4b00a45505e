//! `ptx debug`: the Debug Adapter Protocol over standard input and output, for a kernel on the CPU device.
//!
//! A thread of the protocol is a warp of the block that has stopped. The engine runs on a thread of its own and pauses before each instruction; what the
//! editor requests is answered there, by a function that is sent to it.

mod control;
mod target;
mod values;

use crate::output::{Outcome, no_thread};
use crate::rpc::{self, Incoming};
use control::{Control, Halt, Mode, Reason};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use target::Target;
use values::Scope;

#[derive(clap::Args)]
pub(crate) struct Arguments {}

/// Something for the thread that answers.
enum Event {
    Incoming(Incoming),
    /// A warp has stopped.
    Halted(Halt),
    /// The launch has ended: what it printed, and its exit code.
    Ended(String, i32),
    /// The input has ended.
    Closed,
}

/// Serves until the editor disconnects.
pub(crate) fn run(_: &Arguments, out: &mut dyn Write) -> Outcome {
    let (events, received) = channel();
    let sender = events.clone();
    std::thread::Builder::new().spawn(move || read(&sender)).map_err(no_thread)?;
    let mut session = Session {
        outgoing: Vec::new(),
        events,
        number: 0,
        target: None,
        lines: HashMap::new(),
        control: None,
        halt: None,
        lane: 0,
        scopes: Vec::new(),
    };
    serve(&mut session, &received, out)?;
    Ok(true)
}

fn serve(session: &mut Session, received: &Receiver<Event>, out: &mut dyn Write) -> io::Result<()> {
    loop {
        let goes_on = match received.recv().unwrap_or(Event::Closed) {
            Event::Closed => return Ok(()),
            Event::Incoming(Incoming::Message(message)) => session.request(&message),
            Event::Incoming(Incoming::Malformed(why)) => {
                session.output("stderr", &format!("{why}\n"));
                true
            }
            Event::Halted(halt) => {
                session.halted(halt);
                true
            }
            Event::Ended(text, code) => {
                session.ended(&text, code);
                true
            }
        };
        session.outgoing.drain(..).try_for_each(|message| rpc::write(out, &message))?;
        if !goes_on {
            return Ok(());
        }
    }
}

fn read(events: &Sender<Event>) {
    let mut input = io::stdin().lock();
    while let Ok(Some(incoming)) = rpc::read(&mut input) {
        if events.send(Event::Incoming(incoming)).is_err() {
            return;
        }
    }
    // It is lost if the adapter has ended before.
    let _ = events.send(Event::Closed);
}

/// An answer, or a reason for the user.
type Answer = Result<Value, String>;

/// A connection.
struct Session {
    /// Messages that are to be sent.
    outgoing: Vec<Value>,
    events: Sender<Event>,
    /// The number of the last message.
    number: i64,
    target: Option<Target>,
    /// The lines of breakpoints that came before the launch, by their file.
    lines: HashMap<String, Vec<u64>>,
    /// The running launch.
    control: Option<Control>,
    /// Where it has stopped.
    halt: Option<Halt>,
    /// The lane whose registers are shown.
    lane: usize,
    /// What the numbers of variables stand for, from 1.
    scopes: Vec<Scope>,
}

type Handler = fn(&mut Session, &Value) -> Answer;

/// Every request by its command.
const REQUESTS: &[(&str, Handler)] = &[
    ("initialize", Session::initialize),
    ("launch", Session::launch),
    ("setBreakpoints", Session::set_breakpoints),
    ("setExceptionBreakpoints", Session::nothing),
    ("configurationDone", Session::start),
    ("threads", Session::threads),
    ("stackTrace", Session::stack),
    ("scopes", Session::scopes),
    ("variables", Session::variables),
    ("evaluate", Session::evaluate),
    ("continue", Session::go_on),
    ("next", Session::next),
    ("stepIn", Session::step_in),
    ("stepOut", Session::step_out),
    ("pause", Session::pause),
    ("disconnect", Session::nothing),
    ("terminate", Session::nothing),
];

impl Session {
    /// Answers a request; `false` if it ends the connection.
    fn request(&mut self, message: &Value) -> bool {
        let Some(command) = message["command"].as_str().filter(|_| message["type"] == "request") else {
            self.output("stderr", "a message that is no request\n");
            return true;
        };
        let arguments = message.get("arguments").unwrap_or(&Value::Null);
        let handler = REQUESTS.iter().find(|(name, _)| *name == command).map(|(_, handler)| handler);
        let answer = match handler {
            Some(handler) => handler(self, arguments),
            None => Err(format!("there is no request `{command}`")),
        };
        let mut response =
            json!({"type": "response", "request_seq": message["seq"], "command": command, "success": answer.is_ok()});
        match answer {
            Ok(body) => response["body"] = body,
            Err(why) => {
                response["message"] = why.clone().into();
                response["body"] =
                    json!({"error": {"id": 1, "format": "{why}", "variables": {"why": why}, "showUser": true}});
            }
        }
        self.write(response);
        if command == "initialize" {
            self.event("initialized", json!({}));
        }
        !matches!(command, "disconnect" | "terminate")
    }

    fn write(&mut self, mut message: Value) {
        self.number += 1;
        message["seq"] = self.number.into();
        self.outgoing.push(message);
    }

    fn event(&mut self, name: &str, body: Value) {
        self.write(json!({"type": "event", "event": name, "body": body}));
    }

    fn output(&mut self, category: &str, text: &str) {
        self.event("output", json!({"category": category, "output": text}));
    }

    fn halted(&mut self, halt: Halt) {
        let reason = match halt.reason {
            Reason::Entry => "entry",
            Reason::Breakpoint => "breakpoint",
            Reason::Step => "step",
            Reason::Pause => "pause",
        };
        if halt.lanes >> self.lane & 1 == 0 {
            self.lane = halt.lanes.trailing_zeros() as usize % 32;
        }
        let thread = values::thread_number(halt.warp);
        self.halt = Some(halt);
        self.scopes.clear();
        self.event("stopped", json!({"reason": reason, "threadId": thread, "allThreadsStopped": true}));
    }

    fn ended(&mut self, text: &str, code: i32) {
        (self.control, self.halt) = (None, None);
        if !text.is_empty() {
            self.output(if code == 0 { "stdout" } else { "stderr" }, &format!("{}\n", text.trim_end()));
        }
        self.event("exited", json!({"exitCode": code}));
        self.event("terminated", json!({}));
    }

    fn nothing(&mut self, _: &Value) -> Answer {
        Ok(Value::Null)
    }

    fn initialize(&mut self, _: &Value) -> Answer {
        Ok(json!({
            "supportsConfigurationDoneRequest": true,
            "supportsEvaluateForHovers": true,
            "supportsTerminateRequest": true,
            "supportsSteppingGranularity": true,
        }))
    }

    /// Compiles the file, and chooses the entry and its arguments.
    fn launch(&mut self, arguments: &Value) -> Answer {
        self.target = Some(Target::new(arguments)?);
        Ok(Value::Null)
    }

    fn set_breakpoints(&mut self, arguments: &Value) -> Answer {
        let path = arguments["source"]["path"].as_str().unwrap_or_default().to_owned();
        let wanted = arguments["breakpoints"].as_array().into_iter().flatten();
        let wanted: Vec<u64> = wanted.filter_map(|one| one["line"].as_u64()).collect();
        let places: Vec<Value> = match &self.target {
            Some(target) => wanted
                .iter()
                .map(|line| match target.breakpoint(&path, *line) {
                    Some((line, _)) => json!({"verified": true, "line": line}),
                    None => {
                        json!({"verified": false, "message": "no instruction comes from this line or one behind it"})
                    }
                })
                .collect(),
            None => wanted.iter().map(|line| json!({"verified": true, "line": line})).collect(),
        };
        self.lines.insert(path, wanted);
        if let Some(control) = &self.control {
            control.set_breakpoints(&self.breakpoints());
        }
        Ok(json!({"breakpoints": places}))
    }

    /// The instructions of all breakpoints.
    fn breakpoints(&self) -> Vec<u32> {
        let Some(target) = &self.target else { return Vec::new() };
        let lines = self.lines.iter().flat_map(|(path, lines)| lines.iter().map(move |line| (path, line)));
        lines.filter_map(|(path, line)| target.breakpoint(path, *line)).flat_map(|(_, all)| all).collect()
    }

    /// Begins the launch.
    fn start(&mut self, _: &Value) -> Answer {
        let breakpoints = self.breakpoints();
        let target = self.target.as_mut().ok_or("no file was given; send `launch` first")?;
        let control = Control::start(target, &breakpoints, self.events.clone())?;
        self.control = Some(control);
        Ok(Value::Null)
    }

    /// The launch, if it has stopped.
    fn stopped(&self) -> Result<(&Control, &Target, &Halt), String> {
        match (&self.control, &self.target, &self.halt) {
            (Some(control), Some(target), Some(halt)) => Ok((control, target, halt)),
            _ => Err("the kernel is not stopped".to_owned()),
        }
    }

    fn threads(&mut self, _: &Value) -> Answer {
        let Ok((control, ..)) = self.stopped() else {
            return Ok(json!({"threads": [{"id": 1, "name": "the kernel"}]}));
        };
        Ok(json!({"threads": control.ask(values::threads)?}))
    }

    fn stack(&mut self, arguments: &Value) -> Answer {
        let (control, target, _) = self.stopped()?;
        let warp = values::warp_of(&arguments["threadId"]);
        let lane = self.lane;
        let calls = control.ask(move |stop| values::frames(stop, warp, lane))?;
        let source = json!({"name": target.name(), "path": target.path()});
        let frame = |(depth, (instruction, function)): (usize, (u32, String))| {
            let line = target.line(instruction).unwrap_or(0);
            let id = values::frame_number(warp, depth);
            json!({"id": id, "name": function, "source": source, "line": line, "column": 1})
        };
        let frames: Vec<Value> = calls.into_iter().enumerate().map(frame).collect();
        Ok(json!({"totalFrames": frames.len(), "stackFrames": frames}))
    }

    /// Gives a number to what can be expanded.
    fn number(&mut self, scope: Scope) -> usize {
        self.scopes.push(scope);
        self.scopes.len()
    }

    fn scopes(&mut self, arguments: &Value) -> Answer {
        self.stopped()?;
        let warp = values::warp_of_frame(&arguments["frameId"]);
        let lane = self.lane;
        let mut found = Vec::new();
        for (name, scope) in [
            (format!("Registers of lane {lane}"), Scope::Registers { warp, lane }),
            ("Shared memory".to_owned(), Scope::Shared),
            ("Threads of the warp".to_owned(), Scope::Lanes { warp }),
            ("Mbarriers".to_owned(), Scope::Phases),
        ] {
            let number = self.number(scope);
            found.push(json!({"name": name, "variablesReference": number, "expensive": false}));
        }
        Ok(json!({"scopes": found}))
    }

    fn variables(&mut self, arguments: &Value) -> Answer {
        let (control, target, _) = self.stopped()?;
        let number = arguments["variablesReference"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let scope = number.checked_sub(1).and_then(|at| self.scopes.get(at)).ok_or("there is no such variable")?;
        let (scope, types) = (scope.clone(), target.types());
        let listed = control.ask(move |stop| values::list(stop, &scope, &types))?;
        let mut found = Vec::new();
        for values::Item { name, value, inside } in listed {
            let number = inside.map_or(0, |inside| self.number(inside));
            found.push(json!({"name": name, "value": value, "variablesReference": number}));
        }
        Ok(json!({"variables": found}))
    }

    /// A register (`%r1`), one of another lane (`%r1@5`), `lane 5`, or `why`.
    fn evaluate(&mut self, arguments: &Value) -> Answer {
        let (control, target, halt) = self.stopped()?;
        let text = arguments["expression"].as_str().unwrap_or_default().trim().to_owned();
        let warp = match arguments.get("frameId") {
            Some(frame) => values::warp_of_frame(frame),
            None => halt.warp,
        };
        if let Some(lane) = text.strip_prefix("lane ") {
            let lane = lane.trim().parse().ok().filter(|lane| *lane < 32).ok_or("a warp has the lanes 0 to 31")?;
            self.lane = lane;
            return Ok(json!({"result": format!("shows lane {lane}"), "variablesReference": 0}));
        }
        let (types, lane) = (target.types(), self.lane);
        let result = control.ask(move |stop| values::evaluate(stop, &text, (warp, lane), &types))??;
        Ok(json!({"result": result, "variablesReference": 0}))
    }

    fn resume(&mut self, mode: impl FnOnce(&Halt, usize) -> Mode) -> Answer {
        let (control, _, halt) = self.stopped()?;
        control.resume(mode(halt, self.lane))?;
        self.halt = None;
        Ok(json!({"allThreadsContinued": true}))
    }

    fn go_on(&mut self, _: &Value) -> Answer {
        self.resume(|_, _| Mode::Run)
    }

    /// A line of the warp; an instruction, if the editor requests that.
    fn next(&mut self, arguments: &Value) -> Answer {
        let by_instruction = arguments["granularity"] == "instruction";
        self.resume(|halt, _| if by_instruction { Mode::warp_instruction(halt) } else { Mode::warp_line(halt) })
    }

    /// An instruction of the lane that is shown.
    fn step_in(&mut self, _: &Value) -> Answer {
        self.resume(Mode::lane_instruction)
    }

    fn step_out(&mut self, _: &Value) -> Answer {
        self.resume(|halt, _| Mode::warp_return(halt))
    }

    fn pause(&mut self, _: &Value) -> Answer {
        match &self.control {
            Some(control) => control.pause(),
            None => return Err("the kernel does not run".to_owned()),
        }
        Ok(Value::Null)
    }
}
