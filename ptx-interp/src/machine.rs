//! The machine: global memory, and launches on it.

mod ranks;

pub use ranks::{MOST_RANKS, Turn};

use super::bytes::OutsideMemory;
use super::chip::{self, Chip, Needs};
use super::engine::Engine;
use super::engine::ahead::cores;
use super::fault::{Fault, FaultKind};
use super::field::Field;
use super::global::Global;
use super::grid::{Grid, check_dimensions};
use super::launch::{Launch, Options, Stats};
use super::layout::Home;
use super::listing::Entry;
use super::observe::Observer;
use super::profile::{self, Profile, Profiler, choose_clusters};
use super::program::Program;
use super::progress::Reporter;
use super::reals::observer::{Memory, Numbers};
use super::space::{Where, code_address};
use super::texture::Texture;
use super::trace::Tracer;
use super::watch::{Notes, Past};
use ptx_core::check::Checked;
use ptx_core::diag::Diagnostic;
use ptx_core::ir::{Relocation, Symbol, VarId};
use ranks::Ranks;
use std::collections::HashMap;
use std::sync::Arc;

/// The size of the constant bank: ten banks of 64 KiB.
const CONSTANT_LIMIT: u64 = 640 << 10;

/// The shared memory that a block can have, in bytes: that of the largest chips.
const SHARED_LIMIT: u64 = 227 << 10;

/// A device: its global memory and what runs on it. Addresses depend only on the order of the calls.
#[derive(Debug, Default)]
pub struct Machine {
    global: Global,
    /// The variables of each program that ran here, by rank and program.
    loaded: HashMap<(u32, u64), Loaded>,
    ranks: Ranks,
    launches: u64,
    /// State of the watcher from one launch to the next.
    past: Past,
    /// The real numbers in memory, of launches over them.
    numbers: Memory,
    tracer: Option<Tracer>,
    reporter: Option<Reporter>,
    cores: Option<usize>,
    /// By handle.
    textures: HashMap<u64, Texture>,
}

/// As many warp instructions as the start of a warp takes time.
const STEPS_OF_A_START: u64 = 32;

/// Refuses a grid that cannot end within the step limit: to find that out by running it would take as long.
fn check_steps(launch: &Launch) -> Result<(), Fault> {
    let product = |extent: [u32; 3]| extent.iter().map(|d| u128::from(*d)).product::<u128>();
    let warps = product(launch.grid) * product(launch.block).div_ceil(32);
    match launch.options.step_limit {
        Some(limit) if warps * u128::from(STEPS_OF_A_START) > u128::from(limit) && warps > u128::from(MOST_WARPS) => {
            let message = format!(
                "a grid of {warps} warps, each of which takes {STEPS_OF_A_START} steps to start: more than the {limit} steps \
                 that a launch may take"
            );
            Err(Fault::new(FaultKind::Launch, message).help("a higher step limit (`--steps`) allows it"))
        }
        _ => Ok(()),
    }
}

/// So many warps start at once whatever the limit of steps: a low one is for kernels that do not end.
const MOST_WARPS: u64 = 1 << 20;

impl Program {
    /// Decodes every function of a checked module.
    ///
    /// # Errors
    /// One diagnostic for each instruction that the CPU device cannot run.
    pub fn new(checked: &Checked) -> Result<Program, Vec<Diagnostic>> {
        let mut program = Program::decode(checked, None)?;
        program.notes = Some(Arc::new(Notes::new(checked.module(), &mut program)));
        Ok(program)
    }

    /// The same with elements of a field in the place of floats, the numbers of a [`Field`]. Its launches are not watched.
    ///
    /// # Errors
    /// One diagnostic for each instruction that computes more than sums, products and quotients.
    pub fn over_reals(checked: &Checked, field: Field) -> Result<Program, Vec<Diagnostic>> {
        Program::decode(checked, Some(field))
    }
}

impl Machine {
    /// A machine with empty memory.
    pub fn new() -> Machine {
        Machine::default()
    }

    /// The same for launches of so many ranks.
    pub fn of_ranks(count: u32) -> Machine {
        let mut machine = Machine::new();
        machine.ranks.expect(count);
        machine
    }

    /// Limits how many bytes all allocations may hold together, 64 GiB at most: what the host can spare.
    pub fn limit_memory(&mut self, bytes: u64) {
        self.global.limit_to(bytes);
    }

    /// Reserves `bytes` bytes of global memory and gives their address, a multiple of 256. They read as zero, but the
    /// watcher objects to a kernel that reads what neither the host nor a kernel has written.
    ///
    /// # Errors
    /// [`FaultKind::OutOfMemory`] if the machine's limit is reached or the host has no more.
    pub fn alloc(&mut self, bytes: u64) -> Result<u64, Fault> {
        self.global.alloc(bytes)
    }

    /// Makes memory of the host's an allocation, and gives its address. The watcher checks the bounds and the alignment of accesses to it; it
    /// objects to nothing else there, because it does not see what others do.
    pub fn map(&mut self, memory: Box<dyn OutsideMemory>) -> u64 {
        self.global.map(memory)
    }

    /// Gives an allocation back. An address that [`Machine::alloc`] or [`Machine::map`] did not give is ignored.
    pub fn free(&mut self, address: u64) {
        self.global.free(address);
    }

    /// Copies from global memory.
    ///
    /// # Errors
    /// [`FaultKind::OutOfBounds`] if no single allocation holds the whole range.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(self.global.bytes(address, into.len() as u64)?);
        Ok(())
    }

    /// Copies to global memory.
    ///
    /// # Errors
    /// [`FaultKind::OutOfBounds`] if no single allocation holds the whole range.
    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.global.bytes_mut(address, from.len() as u64)?.copy_from_slice(from);
        Ok(())
    }

    /// The address and size of a variable of a program in global memory; the program is loaded if it was not.
    ///
    /// # Errors
    /// [`FaultKind::OutOfMemory`] if its variables do not fit.
    pub fn symbol(&mut self, program: &Program, name: &str) -> Result<Option<(u64, u64)>, Fault> {
        self.symbol_of_rank(0, program, name)
    }

    fn symbol_of_rank(&mut self, rank: u32, program: &Program, name: &str) -> Result<Option<(u64, u64)>, Fault> {
        self.load(rank, program)?;
        let Some(loaded) = self.loaded.get(&(rank, program.id)) else { return Ok(None) };
        let globals = program.listing.layout.globals.iter().zip(&loaded.addresses);
        let named =
            globals.filter_map(|(id, address)| program.listing.variables.get(id.index()).map(|v| (v, *address)));
        Ok(named.into_iter().find(|(v, _)| v.name == name).map(|(v, address)| (address, v.size)))
    }

    /// The bytes of a variable of a program in global memory or in the constant bank; the program is loaded if it was not.
    ///
    /// # Errors
    /// [`FaultKind::OutOfMemory`] if the program's variables do not fit.
    pub fn variable(&mut self, program: &Program, name: &str) -> Result<Option<&mut [u8]>, Fault> {
        self.variable_of_rank(0, program, name)
    }

    /// The same of a rank: each has variables of its own.
    ///
    /// # Errors
    /// Those of [`Machine::variable`].
    pub fn variable_of_rank(&mut self, rank: u32, program: &Program, name: &str) -> Result<Option<&mut [u8]>, Fault> {
        if let Some((address, size)) = self.symbol_of_rank(rank, program, name)? {
            return self.global.bytes_mut(address, size).map(Some);
        }
        let Some(loaded) = self.loaded.get_mut(&(rank, program.id)) else { return Ok(None) };
        let named = |id: &VarId| program.listing.variables.get(id.index()).filter(|variable| variable.name == name);
        let place =
            program.listing.layout.constants.iter().find_map(|(id, at)| Some((*at as usize, named(id)?.size as usize)));
        Ok(place.and_then(|(at, size)| loaded.constants.get_mut(at..at + size)))
    }

    /// Makes a texture that is a surface, too, and gives its handle: what an entry takes as a 64-bit parameter. Its texels are
    /// the bytes of global memory that it names, whoever writes them.
    ///
    /// # Errors
    /// [`FaultKind::OutOfBounds`] if no single allocation holds its texels; [`FaultKind::Launch`] if it has other than 1, 2 or 4
    /// channels.
    pub fn texture(&mut self, texture: Texture) -> Result<u64, Fault> {
        self.check_texture(&texture)?;
        let handle = self.global.alloc(0)?;
        self.textures.insert(handle, texture);
        Ok(handle)
    }

    /// Gives a handle of [`Machine::texture`] back.
    pub fn forget_texture(&mut self, handle: u64) {
        if self.textures.remove(&handle).is_some() {
            self.global.free(handle);
        }
    }

    /// Binds a texture to a `.texref` or `.surfref` variable of a program. `false` if there is no such variable.
    ///
    /// # Errors
    /// As [`Machine::texture`] and [`Machine::symbol`].
    pub fn bind(&mut self, program: &Program, name: &str, texture: Texture) -> Result<bool, Fault> {
        self.check_texture(&texture)?;
        let Some((handle, _)) = self.symbol(program, name)? else { return Ok(false) };
        self.textures.insert(handle, texture);
        Ok(true)
    }

    fn check_texture(&self, texture: &Texture) -> Result<(), Fault> {
        if !matches!(texture.channels, 1 | 2 | 4) || texture.size.contains(&0) {
            let message = format!(
                "a texture of {:?} texels with {} channels; each size is at least 1, and channels are 1, 2 or 4",
                texture.size, texture.channels
            );
            return Err(Fault::new(FaultKind::Launch, message));
        }
        self.global.bytes(texture.address, texture.bytes()).map(drop)
    }

    /// Bytes of global memory hold real numbers: launches over these only compute with them.
    pub fn mark_numbers(&mut self, address: u64, len: u64) {
        self.numbers.mark(address, len);
    }

    /// The host has an unknown number whose bits these are. Other floats among the parameters of launches over real numbers are the rational
    /// numbers that they are.
    pub fn give_number(&mut self, bits: u64) {
        self.numbers.give(bits);
    }

    /// An instruction of the launches so far that computed a function of real numbers of which nothing is known.
    pub fn unknown_function(&self) -> Option<&str> {
        self.numbers.unknown()
    }

    /// Has the launches from now on tell what chosen threads execute; `None` ends that.
    pub fn trace(&mut self, tracer: Option<Tracer>) {
        self.tracer = tracer;
    }

    /// Has the launches from now on tell how far they are; `None` ends that.
    pub fn report(&mut self, reporter: Option<Reporter>) {
        self.reporter = reporter;
    }

    /// On how many cores blocks run; on all that there are, if this is not called. It changes no result and no finding.
    pub fn cores(&mut self, cores: usize) {
        self.cores = Some(cores);
    }

    /// Runs an entry to its end.
    ///
    /// # Errors
    /// A [`Fault`] that names the instruction, the thread and the reason. Memory then holds what was written so far.
    pub fn launch(&mut self, program: &Program, launch: &Launch) -> Result<Stats, Fault> {
        self.launch_with(program, launch, None)
    }

    /// Runs an entry to its end and counts its work for the hardware, unwatched and on one core.
    ///
    /// # Errors
    /// Those of [`Machine::launch`].
    pub fn profile(
        &mut self,
        program: &Program,
        launch: &Launch,
        options: &profile::Options,
    ) -> Result<(Stats, Profile), Fault> {
        let entry = find_entry(program, launch.entry)?;
        check_dimensions(launch.grid, launch.block, launch.cluster)?;
        let chip = options.chip.unwrap_or_else(|| Chip::usual(program.arch()));
        let threads = launch.block.iter().map(|d| u64::from(*d)).product();
        let shared = entry.shared.saturating_add(launch.dynamic_shared.into());
        let occupancy = chip.occupancy(Needs { threads, registers: None, shared });
        let product = |extent: [u32; 3]| extent.iter().map(|d| u64::from(*d)).fold(1, u64::saturating_mul);
        let cluster = product(launch.cluster).max(1);
        let clusters = product(launch.grid) / cluster;
        let chosen = options.blocks.and_then(|blocks| choose_clusters(clusters, cluster, blocks));
        let profiler = Profiler::new(program, chip, occupancy.blocks.saturating_mul(shared), chosen.is_some());
        let unwatched = Launch { options: Options { watch: false, ..launch.options }, ..*launch };
        let stats = self.launch_with(program, &unwatched, Some((&profiler, chosen.as_deref())))?;
        Ok((stats, profiler.finish(&program.listing, (clusters, cluster))))
    }

    /// Runs an entry, profiled or not; of a profiled one perhaps only some clusters.
    fn launch_with(
        &mut self,
        program: &Program,
        launch: &Launch,
        profiler: Option<(&Profiler, Option<&[u64]>)>,
    ) -> Result<Stats, Fault> {
        let entry = check_launch(program, launch, profiler.is_none_or(|(_, chosen)| chosen.is_none()))?;
        self.load(0, program)?;
        self.launches += 1;
        let loaded = self.loaded.get(&(0, program.id)).ok_or_else(not_loaded)?;
        let over_reals = program.field.map(|field| self.numbers.params(field, entry, launch.params));
        let launch = &Launch { params: over_reals.as_deref().unwrap_or(launch.params), ..*launch };
        let grid = grid_of(self.launches, (program, entry), launch, (loaded, &self.textures));
        let mut stats = Stats::default();
        let numbers = program.field.map(|_| Numbers::new(program, std::mem::take(&mut self.numbers)));
        let alone = self.tracer.is_some()
            || launch.options.seed != 0
            || program.alone
            || profiler.is_some()
            || numbers.is_some();
        let watched = Launch {
            options: Options { watch: launch.options.watch && numbers.is_none(), ..launch.options },
            ..*launch
        };
        let watch = self.past.watch(&mut self.global, program, &watched, program.listing.waits_for_launch(entry));
        if let Some(reporter) = &mut self.reporter {
            reporter.begin(launch.grid.iter().map(|d| u64::from(*d)).product());
        }
        let mut engine = Engine {
            program,
            grid: &grid,
            global: &mut self.global,
            stats: &mut stats,
            observer: match (profiler, &numbers) {
                (Some((profiler, _)), _) => Some(profiler),
                (_, Some(numbers)) => Some(numbers),
                _ => watch.as_ref().map(|watch| watch as &dyn Observer),
            },
            tracer: self.tracer.as_mut(),
            reporter: self.reporter.as_mut(),
            chosen: profiler.and_then(|(_, chosen)| chosen),
            cores: if alone { 1 } else { self.cores.unwrap_or_else(cores) },
        };
        let result = engine.run(entry);
        if let Some(numbers) = numbers {
            self.numbers = numbers.finish();
        }
        result.map_err(|fault| fault.seed(launch.options.seed))?;
        Ok(stats)
    }

    /// Gives a program's variables their memory and their first values, once.
    fn load(&mut self, rank: u32, program: &Program) -> Result<(), Fault> {
        if self.loaded.contains_key(&(rank, program.id)) {
            return Ok(());
        }
        let mut addresses = Vec::new();
        for id in &program.listing.layout.globals {
            let size = program.listing.variables.get(id.index()).map_or(0, |v| v.size);
            addresses.push(self.global.alloc(size)?);
        }
        for (id, address) in program.listing.layout.globals.iter().zip(&addresses) {
            let bytes = initial(program, &addresses, *id);
            self.global.bytes_mut(*address, bytes.len() as u64)?.copy_from_slice(&bytes);
            self.global.mark(*address, program.listing.variables.get(id.index()).map_or(0, |v| v.size));
        }
        if program.listing.layout.constant_bytes > CONSTANT_LIMIT {
            let message =
                format!("{} bytes of constants; {CONSTANT_LIMIT} are possible", program.listing.layout.constant_bytes);
            return Err(Fault::new(FaultKind::OutOfMemory, message));
        }
        let mut constants = vec![0; program.listing.layout.constant_bytes as usize];
        for (id, at) in &program.listing.layout.constants {
            let bytes = initial(program, &addresses, *id);
            if let Some(to) = constants.get_mut(*at as usize..*at as usize + bytes.len()) {
                to.copy_from_slice(&bytes);
            }
        }
        self.loaded.insert((rank, program.id), Loaded { addresses, constants });
        Ok(())
    }
}

/// A program's variables on a machine.
#[derive(Debug)]
struct Loaded {
    /// The address of each variable in global memory.
    addresses: Vec<u64>,
    /// The constant bank.
    constants: Vec<u8>,
}

fn find_entry<'p>(program: &'p Program, name: &str) -> Result<&'p Entry, Fault> {
    program.listing.functions.iter().find(|f| f.entry && f.defined && f.name == name).ok_or_else(|| {
        let known: Vec<&str> = program.entries().collect();
        let message = format!("no entry `{name}` in this program; it has {}", known.join(", "));
        Fault::new(FaultKind::Launch, message)
    })
}

/// Checks that some device takes a launch; gives its entry. `all`: every block will run.
fn check_launch<'p>(program: &'p Program, launch: &Launch, all: bool) -> Result<&'p Entry, Fault> {
    let entry = find_entry(program, launch.entry)?;
    check_dimensions(launch.grid, launch.block, launch.cluster)?;
    check_sizes(entry, launch)?;
    if all {
        check_steps(launch)?;
    }
    if launch.cooperative {
        chip::check_resident(program.arch(), entry.shared, launch)?;
    }
    Ok(entry)
}

/// A launch as its threads see it.
fn grid_of<'a>(
    id: u64,
    (program, entry): (&Program, &Entry),
    launch: &Launch<'a>,
    (loaded, textures): (&'a Loaded, &'a HashMap<u64, Texture>),
) -> Grid<'a> {
    Grid {
        id,
        entry: program.listing.functions.iter().position(|f| std::ptr::eq(f, entry)).unwrap_or(0),
        grid: launch.grid,
        block: launch.block,
        cluster: launch.cluster,
        params: launch.params,
        constants: &loaded.constants,
        addresses: &loaded.addresses,
        textures,
        dynamic: dynamic_start(entry),
        dynamic_bytes: u64::from(launch.dynamic_shared),
        seed: launch.options.seed,
        step_limit: launch.options.step_limit.unwrap_or(u64::MAX),
        registers: entry.max_registers,
    }
}

fn not_loaded() -> Fault {
    Fault::new(FaultKind::Launch, "the program is not loaded")
}

/// Start of dynamic shared memory.
fn dynamic_start(entry: &Entry) -> u64 {
    entry.shared.checked_next_multiple_of(entry.dynamic_align).unwrap_or(entry.shared)
}

fn check_sizes(entry: &Entry, launch: &Launch) -> Result<(), Fault> {
    if launch.params.len() as u64 != entry.params {
        let message = format!("{} bytes of parameters; `{}` takes {}", launch.params.len(), entry.name, entry.params);
        return Err(Fault::new(FaultKind::Launch, message));
    }
    if entry.shared.saturating_add(launch.dynamic_shared.into()) > SHARED_LIMIT {
        let (fixed, dynamic) = (entry.shared, launch.dynamic_shared);
        let message =
            format!("{fixed} bytes of static and {dynamic} of dynamic shared memory; a block can have {SHARED_LIMIT}");
        return Err(Fault::new(FaultKind::Launch, message));
    }
    Ok(())
}

/// The first bytes of a variable, as far as they are not zero: its initializer with the addresses filled in.
fn initial(program: &Program, addresses: &[u64], id: VarId) -> Vec<u8> {
    let Some(data) = program.listing.variables.get(id.index()) else { return Vec::new() };
    let Some(init) = &data.init else { return Vec::new() };
    let mut bytes = vec![0; data.size as usize];
    for (to, from) in bytes.iter_mut().zip(&init.bytes) {
        *to = *from;
    }
    for relocation in &init.relocations {
        let value = relocated(program, addresses, relocation).to_le_bytes();
        let width = relocation.width.min(8) as usize;
        let at = relocation.at as usize;
        if let Some(to) = bytes.get_mut(at..at.saturating_add(width)) {
            to.copy_from_slice(&value[..width]);
        }
    }
    bytes
}

/// The value of an address in an initializer.
fn relocated(program: &Program, addresses: &[u64], relocation: &Relocation) -> u64 {
    let (space, base) = match relocation.of {
        Symbol::Func(id) => (Where::Generic, code_address(id.index())),
        Symbol::Var(id) => match program.listing.layout.home(id) {
            Some(Home::Global(index)) => (Where::Global, addresses.get(index as usize).copied().unwrap_or(0)),
            Some(Home::Const(at)) => (Where::Const, at),
            Some(Home::Shared(at)) => (Where::Shared, at),
            _ => (Where::Generic, 0),
        },
    };
    let address = base.wrapping_add(relocation.offset as u64);
    let address = if relocation.generic { space.to_generic(address) } else { address };
    match relocation.mask {
        Some(mask) if mask != 0 => (address & mask) >> mask.trailing_zeros(),
        _ => address,
    }
}
