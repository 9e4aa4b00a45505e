//! The engine's thread: when it stops, and what it is asked there.

use super::Event;
use super::target::Target;
use ptx_interp::Tracer;
use ptx_interp::debug::Stop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Where a launch has stopped.
#[derive(Clone, Debug)]
pub(super) struct Halt {
    pub(super) block: [u32; 3],
    pub(super) warp: u32,
    pub(super) lanes: u32,
    line: Option<u64>,
    depth: usize,
    pub(super) reason: Reason,
}

/// Why it has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Entry,
    Breakpoint,
    Step,
    Pause,
}

/// How far it runs.
#[derive(Clone, Debug)]
pub(super) enum Mode {
    /// To a breakpoint.
    Run,
    /// Until this warp is at another line, in the same function or a caller.
    Line(Halt),
    /// Until this warp executes an instruction.
    Instruction(Halt),
    /// Until this lane of the warp executes an instruction.
    Lane(Halt, usize),
    /// Until this warp is in a caller.
    Return(Halt),
}

impl Mode {
    pub(super) fn warp_line(halt: &Halt) -> Mode {
        Mode::Line(halt.clone())
    }

    pub(super) fn warp_instruction(halt: &Halt) -> Mode {
        Mode::Instruction(halt.clone())
    }

    pub(super) fn lane_instruction(halt: &Halt, lane: usize) -> Mode {
        Mode::Lane(halt.clone(), lane)
    }

    pub(super) fn warp_return(halt: &Halt) -> Mode {
        Mode::Return(halt.clone())
    }

    /// Returns true if a step ends here.
    fn ends(&self, stop: &Stop<'_>, line: Option<u64>) -> bool {
        let same = |halt: &Halt| halt.block == stop.block() && halt.warp == stop.warp();
        match self {
            Mode::Run => false,
            Mode::Line(halt) => {
                let moved = line.is_some() && line != halt.line;
                same(halt) && stop.depth() <= halt.depth && (moved || stop.depth() < halt.depth)
            }
            Mode::Instruction(halt) => same(halt),
            Mode::Lane(halt, lane) => same(halt) && stop.lanes() >> lane & 1 == 1,
            Mode::Return(halt) => same(halt) && stop.depth() < halt.depth,
        }
    }
}

/// A question to the engine's thread.
type Question = Box<dyn FnOnce(&Stop<'_>) + Send>;

enum Command {
    Ask(Question),
    Resume(Mode),
}

/// A running launch.
pub(super) struct Control {
    commands: Sender<Command>,
    /// For each instruction.
    breakpoints: Arc<Vec<AtomicBool>>,
    paused: Arc<AtomicBool>,
}

impl Control {
    /// Starts the launch on a thread of its own.
    pub(super) fn start(target: &mut Target, breakpoints: &[u32], events: Sender<Event>) -> Result<Control, String> {
        let (commands, received) = channel();
        let flags = (0..target.instructions()).map(|_| AtomicBool::new(false)).collect();
        let control = Control { commands, breakpoints: Arc::new(flags), paused: Arc::default() };
        control.set_breakpoints(breakpoints);
        let mut engine = Engine {
            received,
            events: events.clone(),
            breakpoints: Arc::clone(&control.breakpoints),
            paused: Arc::clone(&control.paused),
            lines: target.lines(),
            mode: Mode::Run,
            stops_at_entry: target.stops_at_entry(),
        };
        let tracer = Tracer::debug(Box::new(move |stop| engine.before(stop)));
        let launch = target.take_launch().ok_or("the launch has begun already")?;
        let run = move || {
            let (text, code) = launch.run(tracer);
            // It is lost if the adapter has ended before.
            let _ = events.send(Event::Ended(text, code));
        };
        std::thread::Builder::new().spawn(run).map_err(|e| format!("no thread for the launch: {e}"))?;
        Ok(control)
    }

    pub(super) fn set_breakpoints(&self, instructions: &[u32]) {
        for (at, flag) in self.breakpoints.iter().enumerate() {
            let is_set = u32::try_from(at).is_ok_and(|at| instructions.contains(&at));
            flag.store(is_set, Ordering::Relaxed);
        }
    }

    pub(super) fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Computes something of the stopped block.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Stop<'_>) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (answer, received) = channel();
        let asked = Command::Ask(Box::new(move |stop| drop(answer.send(question(stop)))));
        let gone = || "the launch has ended".to_owned();
        self.commands.send(asked).map_err(|_| gone())?;
        received.recv().map_err(|_| gone())
    }

    pub(super) fn resume(&self, mode: Mode) -> Result<(), String> {
        self.commands.send(Command::Resume(mode)).map_err(|_| "the launch has ended".to_owned())
    }
}

/// The engine's side.
struct Engine {
    received: Receiver<Command>,
    events: Sender<Event>,
    breakpoints: Arc<Vec<AtomicBool>>,
    paused: Arc<AtomicBool>,
    /// The line of each instruction.
    lines: Vec<Option<u64>>,
    mode: Mode,
    stops_at_entry: bool,
}

impl Engine {
    /// Looks at an instruction that is about to run; `false` ends the launch.
    fn before(&mut self, stop: &Stop<'_>) -> bool {
        let at = stop.instruction() as usize;
        let line = self.lines.get(at).copied().flatten();
        let is_set = self.breakpoints.get(at).is_some_and(|flag| flag.load(Ordering::Relaxed));
        let reason = match () {
            () if std::mem::take(&mut self.stops_at_entry) => Reason::Entry,
            () if self.paused.swap(false, Ordering::Relaxed) => Reason::Pause,
            () if is_set => Reason::Breakpoint,
            () if self.mode.ends(stop, line) => Reason::Step,
            () => return true,
        };
        let halt =
            Halt { block: stop.block(), warp: stop.warp(), lanes: stop.lanes(), line, depth: stop.depth(), reason };
        if self.events.send(Event::Halted(halt)).is_err() {
            return false;
        }
        loop {
            match self.received.recv() {
                Ok(Command::Ask(question)) => question(stop),
                Ok(Command::Resume(mode)) => {
                    self.mode = mode;
                    return true;
                }
                // The editor is gone.
                Err(_) => return false,
            }
        }
    }
}
