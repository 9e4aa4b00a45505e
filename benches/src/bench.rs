//! One contest: check everybody, then let them take turns. Knows no kernel.

use crate::budget::Budget;
use crate::companion::{Companion, Opened};
use crate::machine::{self, Machine};
pub use crate::options::Options;
pub use crate::results::Work;
use crate::results::{Entry, Results};
use crate::rivals::cudnn;
use crate::tables;
use crate::targets::{TARGETS, Target};
use ptx_launch::prelude::*;
use ptx_launch::{Error, Graph, Result, Timing};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The device, how to measure on it, and what came out so far.
pub struct Bench {
    /// The device that runs everything.
    pub device: Device,
    /// The stream of every launch.
    pub stream: Stream,
    /// Options of the measurement.
    pub options: Options,
    /// Results so far.
    pub results: Results,
    /// The time that the contests share.
    pub budget: Budget,
    /// Rivals in processes of their own.
    companions: Vec<Companion>,
}

/// Does something on a stream.
type OnStream<'a, T> = Box<dyn Fn(&Stream) -> Result<T> + 'a>;

/// Launches something once.
type Launch<'a> = Box<dyn FnMut(&Stream) -> Result<()> + 'a>;

/// Who takes part in a contest.
pub struct Contestant<'a> {
    /// `ours`, `128x256 G8`, `cuBLASLt`.
    name: String,
    /// True if it is a kernel of this language.
    ours: bool,
    how: How<'a>,
    /// Its launches in a row, where one is short.
    recorded: Option<Graph>,
}

/// Launches that take less are recorded in a graph, so that nobody waits for the host: as the companions do it.
const SHORT: Duration = Duration::from_micros(50);
/// Number of launches in one recorded graph.
const RECORDED: u32 = 64;

impl Contestant<'_> {
    /// Returns true if its launches could be recorded.
    fn record(&mut self, stream: &Stream) -> bool {
        if let How::Here(launch) = &mut self.how {
            self.recorded = stream.capture(|stream| (0..RECORDED).try_for_each(|_| launch(stream))).ok();
        }
        self.recorded.is_some()
    }
}

/// The way a contestant is launched.
enum How<'a> {
    Here(Launch<'a>),
    /// In the companion of this number.
    There(usize),
}

/// A kernel at one size: what is computed, and by whom.
pub struct Case<'a> {
    /// The kernel: `gemm bf16`.
    pub kernel: &'a str,
    /// The size, as a person writes it: `4096x4096x4096`.
    pub size: String,
    /// Work of one launch.
    pub work: Work,
    /// Writes values to the output that no right result has.
    pub poison: OnStream<'a, ()>,
    /// Relative error of the output: ‖out − ref‖ / ‖ref‖. Not a number where something was not written.
    pub check: OnStream<'a, f64>,
    /// The most that may be.
    pub limit: f64,
    /// Those who take turns.
    pub contestants: Vec<Contestant<'a>>,
    /// Those who should, but are not here: who, and why.
    pub absent: Vec<(String, String)>,
}

impl<'a> Case<'a> {
    /// Adds a kernel of this language.
    pub fn ours(&mut self, name: impl Into<String>, launch: impl FnMut(&Stream) -> Result<()> + 'a) {
        self.contestants.push(Contestant {
            name: name.into(),
            ours: true,
            how: How::Here(Box::new(launch)),
            recorded: None,
        });
    }

    /// Adds a library.
    pub fn rival(&mut self, name: impl Into<String>, launch: impl FnMut(&Stream) -> Result<()> + 'a) {
        self.contestants.push(Contestant {
            name: name.into(),
            ours: false,
            how: How::Here(Box::new(launch)),
            recorded: None,
        });
    }

    /// Adds a library, if it is here.
    pub fn rival_if(&mut self, name: &str, launch: Result<impl FnMut(&Stream) -> Result<()> + 'a>) {
        match launch {
            Ok(launch) => self.rival(name, launch),
            Err(why) => self.absent.push((name.to_owned(), why.to_string())),
        }
    }

    /// Runs a contestant once on poisoned output, and compares.
    fn judge(&self, stream: &Stream, name: &str, ours: bool, launch: &mut Launch<'_>) -> Entry {
        let mut error = || {
            (self.poison)(stream)?;
            launch(stream)?;
            (self.check)(stream)
        };
        let entry = self.entry(name, ours);
        match error() {
            Ok(error) => self.judged(entry, error),
            Err(why) => Entry { why: Some(why.to_string()), ..entry },
        }
    }

    fn entry(&self, name: &str, ours: bool) -> Entry {
        Entry {
            kernel: self.kernel.to_owned(),
            size: self.size.clone(),
            contestant: name.to_owned(),
            ours,
            ..Entry::default()
        }
    }

    fn judged(&self, mut entry: Entry, error: f64) -> Entry {
        if matches!(self.work, Work::Accuracy) && error > 0.0 {
            (entry.rate, entry.unit) = (1.0 / error, "1/error".to_owned());
        }
        Entry { error: error.is_finite().then_some(error), right: error <= self.limit, ..entry }
    }
}

/// Those of a case so far: one entry each, and those who may take turns, with the places of their entries.
#[derive(Default)]
struct Field<'a> {
    entries: Vec<Entry>,
    players: Vec<(usize, Contestant<'a>)>,
}

impl<'a> Field<'a> {
    /// Who is right plays.
    fn add(&mut self, entry: Entry, how: How<'a>) {
        let (name, ours) = (entry.contestant.clone(), entry.ours);
        self.players
            .extend(entry.right.then_some((self.entries.len(), Contestant { name, ours, how, recorded: None })));
        self.entries.push(entry);
    }
}

impl Bench {
    /// Opens a contest place on a device: when the companions are ready, its bandwidth and rate are measured.
    pub fn new(device: Device, options: Options, companions: &[String]) -> Result<Bench> {
        let mut companions: Vec<_> = companions.iter().map(|command| Companion::start(command)).collect();
        let greet = |companion: &mut Companion| companion.greet().unwrap_or_else(|why| why);
        let mut says: Vec<_> = companions.iter_mut().map(greet).collect();
        if device.is_cuda() && !options.alone {
            says.extend(cudnn::version().map(|version| format!("{version} here")));
        }
        companions.retain(Companion::is_here);
        let stream = device.new_stream()?;
        let machine = Machine { companions: says, ..machine::measure(&device, &stream, &options)? };
        eprintln!("{machine}");
        let results = Results { machine, ..Results::default() };
        Ok(Bench { device, stream, options, results, budget: Budget::default(), companions })
    }

    /// The sizes of a suite: those that are listed, or the small ones of a rehearsal, which is all that an interpreter can do.
    pub fn sizes<T: ?Sized>(&self, listed: &'static T, small: &'static T) -> &'static T {
        if self.options.rehearse || !self.device.is_cuda() { small } else { listed }
    }

    /// Returns true if times are those of a GPU's memory. Otherwise one set of buffers does: a tool that follows each launch takes long for many.
    pub fn measures_memory(&self) -> bool {
        self.device.is_cuda() && !self.options.check_only && !self.options.rehearse
    }

    /// Returns true if a size is selected, and its contest begins. After the time limit, the size is recorded as skipped.
    pub fn wants(&mut self, kernel: &str, size: &str) -> bool {
        self.wants_share(kernel, size, 1)
    }

    /// The same for work that takes as much time as so many contests.
    pub fn wants_share(&mut self, kernel: &str, size: &str, contests: u32) -> bool {
        let Options { sizes, promised, rehearse, .. } = &self.options;
        let spoken_of = |target: &Target| target.has(kernel, size) || (*rehearse && target.kernels.contains(&kernel));
        let wanted = (sizes.is_empty() || sizes.iter().any(|part| size.contains(part.as_str())))
            && (!promised || TARGETS.iter().any(spoken_of) || tables::has(kernel));
        if self.budget.is_counting {
            self.budget.count(if wanted { contests } else { 0 });
            return false;
        }
        let late = wanted && self.budget.is_over();
        if late {
            self.absent(kernel, size, "the time was over");
        } else if wanted {
            self.budget.begin(Instant::now(), contests);
        }
        wanted && !late
    }

    /// Shows a line with figures that no contest has, and keeps it.
    pub fn note(&mut self, line: String) {
        println!("{line}");
        self.results.notes.push(line);
    }

    /// Notes that a suite ended before its time.
    pub fn fails(&mut self, kernel: &str, why: &Error) {
        self.absent(kernel, "", &why.to_string());
    }

    fn absent(&mut self, kernel: &str, size: &str, why: &str) {
        let (kernel, size, why) = (kernel.to_owned(), size.to_owned(), Some(why.to_owned()));
        let entry = Entry { kernel, size, contestant: "ours".to_owned(), ours: true, why, ..Entry::default() };
        eprintln!("{entry}");
        self.results.entries.push(entry);
    }

    /// A seed that no other input has.
    pub fn seed(&mut self) -> u32 {
        self.options.seed = self.options.seed.wrapping_mul(0x9E37_79B9).wrapping_add(0x7F4A_7C15);
        self.options.seed
    }

    /// Checks every contestant, lets those who are right take turns, and keeps what came out.
    pub fn contest(&mut self, case: Case<'_>) -> Result<()> {
        let timed = !self.options.check_only && (self.device.is_cuda() || self.options.rehearse);
        self.hold(case, timed)
    }

    /// Checks every contestant, and times nothing: for sizes that nobody measures.
    pub fn check(&mut self, case: Case<'_>) -> Result<()> {
        self.hold(case, false)
    }

    fn hold(&mut self, mut case: Case<'_>, timed: bool) -> Result<()> {
        let contestants = std::mem::take(&mut case.contestants);
        let mut field = Field::default();
        for Contestant { name, ours, how, .. } in contestants {
            if let How::Here(mut launch) = how {
                field.add(case.judge(&self.stream, &name, ours, &mut launch), How::Here(launch));
            }
        }
        if timed && !self.options.alone {
            self.invite(&mut case, &mut field);
        }
        let absent = case.absent.iter().map(|(name, why)| Entry { why: Some(why.clone()), ..case.entry(name, false) });
        field.entries.extend(absent);
        if timed {
            self.turns(case.work, &mut field);
            self.companions.iter_mut().for_each(Companion::close);
            self.companions.retain(Companion::is_here);
        }
        field.entries.iter().for_each(|entry| eprintln!("{entry}"));
        self.results.entries.extend(field.entries);
        Ok(())
    }

    /// Adds the rivals of the companions.
    fn invite(&mut self, case: &mut Case<'_>, field: &mut Field<'_>) {
        for (at, companion) in self.companions.iter_mut().enumerate() {
            match companion.open(case.kernel, &case.size) {
                Ok(Opened { rivals, absent }) => {
                    case.absent.extend(absent);
                    for (name, error) in rivals {
                        field.add(case.judged(case.entry(&name, false), error), How::There(at));
                    }
                }
                Err(why) => case.absent.push((companion.command.clone(), why)),
            }
        }
    }

    /// Turn by turn, in another order each time. Half a turn goes by before the clock starts: until then the chip runs as
    /// fast as the one before left it (who takes less power leaves more), and from then on each has its own speed. Who fails
    /// leaves.
    fn turns(&mut self, work: Work, Field { entries, players }: &mut Field<'_>) {
        let Options { turn, turns, seed, .. } = self.options;
        let length = self.budget.turn(Instant::now(), turn, players.len(), turns);
        let mut batches = vec![0; players.len()];
        let mut samples = vec![Vec::new(); players.len()];
        let mut order: Vec<usize> = (0..players.len()).collect();
        for turn in 0..=turns {
            shuffle(&mut order, seed ^ turn);
            let turn = |at: &usize| {
                let (entry, contestant) = &mut players[*at];
                let played = match batches[*at] {
                    0 => self.batch(length, contestant).map(|batch| batches[*at] = batch),
                    batch => self.turn(batch, contestant).map(|time| samples[*at].push(time)),
                };
                played.map_err(|why| entries[*entry].why = Some(why)).is_ok()
            };
            order.retain(turn);
        }
        for ((at, _), samples) in players.iter().zip(samples) {
            if entries[*at].why.is_none() {
                entries[*at].timed(work, Timing::from_samples(samples));
                entries[*at].turn = length.as_secs_f64() * 1e3;
            }
        }
    }

    /// Launches of half a turn.
    fn batch(&mut self, turn: Duration, contestant: &mut Contestant<'_>) -> Result<u32, String> {
        let mut once = self.time(1, contestant)?.min(self.time(2, contestant)?);
        if once < SHORT && contestant.record(&self.stream) {
            once = self.time(RECORDED, contestant)?;
        }
        let batch = turn.as_secs_f64() / 2.0 / once.as_secs_f64().max(1e-7);
        Ok((batch as u32).clamp(1, 20_000))
    }

    fn turn(&mut self, batch: u32, contestant: &mut Contestant<'_>) -> Result<Duration, String> {
        self.time(batch, contestant)?;
        self.time(batch, contestant)
    }

    /// The time of one of `batch` launches.
    fn time(&mut self, batch: u32, contestant: &mut Contestant<'_>) -> Result<Duration, String> {
        let (stream, timer) = (&self.stream, |batch| Timer::new().warm_up(0).runs(1).batch(batch));
        let timing = match (&mut contestant.how, &mut contestant.recorded) {
            (How::There(at), _) => return self.companions[*at].time(&contestant.name, batch),
            (How::Here(_), Some(graph)) => {
                let timing = timer(batch.div_ceil(RECORDED)).measure(stream, || graph.launch());
                timing.map(|timing| timing.median() / RECORDED)
            }
            (How::Here(launch), None) => timer(batch).measure(stream, || launch(stream)).map(|timing| timing.median()),
        };
        timing.map_err(|why| why.to_string())
    }
}

/// Another order (Fisher and Yates, with xorshift).
fn shuffle(order: &mut [usize], seed: u32) {
    let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
    for last in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        order.swap(last, state as usize % (last + 1));
    }
}

/// A seed from the clock.
pub fn time_of_day() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.subsec_nanos() ^ since.as_secs() as u32)
}

/// Calls of one measurement: fewer than a stream's queue holds.
const CALLS: u32 = 400;

/// The host's time for a call, the least of some measurements.
pub fn quickest_call(stream: &Stream, mut call: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..20 {
        stream.synchronize()?;
        let start = Instant::now();
        (0..CALLS).try_for_each(|_| call())?;
        best = best.min(start.elapsed() / CALLS);
    }
    Ok(best)
}
