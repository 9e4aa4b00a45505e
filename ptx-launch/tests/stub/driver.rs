//! A CUDA driver without a GPU: a `libcuda.so` whose device memory is host memory, which counts its calls, refuses what
//! it is told to refuse, follows the order of work (`model`), and has the effects of some kernels built in (`kernels`). The tests load it before
//! cudarc looks for the real one, so that everything above the driver is exercised on any machine.
//!
//! It is compiled by `tests/stub/mod.rs`, not by cargo.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

mod kernels;
mod model;
mod objects;

use model::{Order, queue};
use objects::{Node, Recording, User};

type Code = c_int;
const SUCCESS: Code = 0;
const INVALID_VALUE: Code = 1;
const OUT_OF_MEMORY: Code = 2;
const INVALID_CONTEXT: Code = 201;
const INVALID_PTX: Code = 218;
const NOT_FOUND: Code = 500;

/// Bytes of "device" memory in all.
const CAPACITY: u64 = 1 << 30;

#[derive(Default)]
struct State {
    /// What the device is: compute capability, bytes of shared memory, and the driver's version of CUDA.
    device: [c_int; 3],
    calls: HashMap<&'static str, u64>,
    refusals: HashMap<String, (Code, u64)>,
    memory: BTreeMap<u64, usize>,
    pinned: BTreeMap<u64, usize>,
    functions: Vec<String>,
    /// The module of each function.
    modules: Vec<u64>,
    /// Variables of modules, by module and name: their addresses.
    variables: HashMap<(u64, String), u64>,
    /// The bytes of variables, by address.
    fixed: BTreeMap<u64, usize>,
    opted_in: HashMap<u64, u64>,
    launch: Option<Launch>,
    /// The nodes so far, by stream.
    captures: HashMap<u64, Recording>,
    /// Graphs, and their executable ones.
    graphs: HashMap<u64, Vec<Node>>,
    /// The memory of textures and surfaces.
    objects: HashMap<u64, u64>,
    /// Streams and events that are alive, and their contexts.
    handles: HashMap<u64, u64>,
    /// The context of each allocation, pinned memory, module, graph, texture and array.
    homes: HashMap<u64, u64>,
    /// Events that were recorded in captures.
    captured_events: HashSet<u64>,
    /// Objects of users: what a destructor gets, and the graphs that hold it.
    users: HashMap<u64, User>,
    /// Calls of a thread without a context, or with another one than that of what it passes.
    strays: u64,
    /// Keys and values of the last load that had a text or machine code.
    jit: HashMap<c_int, u64>,
    order: Order,
}

/// Work of a stream on bytes at an address; `false` if they are not all in one allocation.
fn touch(stream: u64, address: u64, bytes: usize, writes: bool) -> bool {
    with(|state| {
        let end = address + bytes as u64;
        let inside = |(at, len): &(&u64, &usize)| end <= **at + **len as u64;
        let allocation = |memory: &BTreeMap<u64, usize>| memory.range(..=address).next_back().filter(inside).map(|(at, _)| *at);
        let found = [&state.memory, &state.pinned, &state.fixed].into_iter().find_map(allocation);
        match found {
            Some(at) => {
                state.order.is_alive(stream);
                state.order.work(queue(stream), at, address - at..end - at, writes);
                true
            }
            None => {
                state.order.misuses += 1;
                false
            }
        }
    })
}

/// The same for host memory, of which pinned memory alone is followed.
fn touch_host(stream: u64, address: u64, bytes: usize, writes: bool) {
    let pinned = with(|state| state.pinned.range(..=address).next_back().is_some_and(|(at, len)| address < at + *len as u64));
    if pinned {
        touch(stream, address, bytes, writes);
    }
}

/// Waits a little, sometimes, before work is submitted, so that threads meet.
fn jitter() {
    let chance = JITTER.load(SeqCst);
    if chance > 0 {
        thread_local!(static RANDOM: Cell<u64> = const { Cell::new(88_172_645_463_325_252) });
        let mut random = RANDOM.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        RANDOM.set(random);
        (0..random % chance).for_each(|_| std::thread::yield_now());
    }
}

static JITTER: AtomicU64 = AtomicU64::new(0);

/// From now on each submission waits for a random number of turns of the scheduler below this.
#[unsafe(no_mangle)]
pub extern "C" fn stub_jitter(chance: u64) {
    JITTER.store(chance, SeqCst);
}

/// Calls with streams, events or memory that do not exist, and calls that break captures.
#[unsafe(no_mangle)]
pub extern "C" fn stub_misuses() -> u64 {
    with(|state| state.order.misuses)
}

/// The host reads or writes pinned memory.
#[unsafe(no_mangle)]
pub extern "C" fn stub_host(address: u64, writes: bool) {
    with(|state| state.order.touch_by_host(address, writes));
}

/// Whatever is alive: allocations, pinned memory, graphs, captures, textures and surfaces.
#[unsafe(no_mangle)]
pub extern "C" fn stub_alive() -> u64 {
    with(|state| {
        let objects = state.graphs.len() + state.captures.len() + state.objects.len();
        (state.memory.len() + state.pinned.len() + objects + state.handles.len() + state.users.len()) as u64
    })
}

/// Calls without a context, or in another one than that of what they are about.
#[unsafe(no_mangle)]
pub extern "C" fn stub_strays() -> u64 {
    with(|state| state.strays)
}

/// Number of unordered pairs of uses of the same memory.
#[unsafe(no_mangle)]
pub extern "C" fn stub_races() -> u64 {
    with(|state| state.order.races)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> Code {
    match enter("cuCtxSynchronize") {
        SUCCESS => with(|state| {
            // A wait for the whole context breaks every capture in it.
            let broken = state.captures.values().filter(|capture| capture.context == CURRENT.get()).count() as u64;
            state.order.misuses += broken;
            if broken > 0 {
                trace("a capture is broken");
                return 900;
            }
            state.order.synchronize_context(CURRENT.get());
            SUCCESS
        }),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: u64) -> Code {
    match enter("cuStreamSynchronize") {
        SUCCESS if with(|state| state.captures.contains_key(&queue(stream))) => 900,
        SUCCESS => with(|state| {
            state.order.synchronize_stream(stream);
            SUCCESS
        }),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: u64) -> Code {
    match enter("cuEventSynchronize") {
        SUCCESS if with(|state| state.captured_events.contains(&event)) => 907,
        SUCCESS => with(|state| {
            state.order.wait_on_host(event);
            SUCCESS
        }),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: u64) -> Code {
    match enter("cuEventQuery") {
        SUCCESS if with(|state| state.captured_events.contains(&event)) => 907,
        SUCCESS if !with(|state| state.order.has_ended(event)) => 600,
        code => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: u64, stream: u64) -> Code {
    match enter("cuEventRecord") {
        SUCCESS => with(|state| {
            if state.handles.get(&event).is_some_and(|home| *home != context_of(state, stream)) {
                state.strays += 1;
                return 400;
            }
            // An event of a capture: whoever waits for it would join the capture.
            match state.captures.contains_key(&queue(stream)) {
                true => {
                    state.order.misuses += 1;
                    trace("an event is recorded in a capture");
                    state.captured_events.insert(event)
                }
                false => state.captured_events.remove(&event),
            };
            state.order.record(event, stream);
            SUCCESS
        }),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: u64) -> Code {
    match enter("cuStreamDestroy_v2") {
        SUCCESS => with(|state| {
            // A captured stream takes its capture with it.
            state.order.misuses += u64::from(state.captures.remove(&queue(stream)).is_some());
            state.handles.remove(&stream);
            state.order.destroy(stream);
            SUCCESS
        }),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: u64) -> Code {
    match enter("cuEventDestroy_v2") {
        SUCCESS => with(|state| {
            state.handles.remove(&event);
            state.captured_events.remove(&event);
            state.order.destroy(event);
            SUCCESS
        }),
        code => code,
    }
}

/// Parameters of the last launch: grid, block, dynamic shared bytes, stream, launch attributes.
#[derive(Clone, Default)]
struct Launch {
    words: Vec<u64>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static HANDLES: AtomicU64 = AtomicU64::new(0x1000);
thread_local!(static CURRENT: Cell<u64> = const { Cell::new(0) });

fn with<R>(action: impl FnOnce(&mut State) -> R) -> R {
    let mut state = STATE.lock().unwrap_or_else(|e| e.into_inner());
    action(state.get_or_insert_with(State::default))
}

/// Calls that need no current context.
const ANYWHERE: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
];

/// Counts a call, and gives the code that the test lets it fail with, or `CUDA_ERROR_INVALID_CONTEXT` where no context is current.
fn enter(name: &'static str) -> Code {
    let stray = CURRENT.get() == 0 && !ANYWHERE.contains(&name);
    with(|state| {
        *state.calls.entry(name).or_default() += 1;
        if stray {
            state.strays += 1;
            trace(name);
            return INVALID_CONTEXT;
        }
        match state.refusals.get_mut(name) {
            Some((code, times)) if *times > 0 => {
                *times -= 1;
                *code
            }
            _ => SUCCESS,
        }
    })
}

/// Says where a stray call came from: `STUB_TRACE=1`.
fn trace(what: &str) {
    if std::env::var_os("STUB_TRACE").is_some() {
        eprintln!("{what}: {}", std::backtrace::Backtrace::force_capture());
    }
}

/// The context of a stream, which is the current one for the default stream and that of the thread.
fn context_of(state: &State, stream: u64) -> u64 {
    state.handles.get(&stream).copied().unwrap_or(CURRENT.get())
}

/// Work goes to a stream of the current context, and what belongs to a context is used in it.
fn stays_home(state: &mut State, stream: u64, homes: &[u64]) {
    let context = context_of(state, stream);
    let away = |home: &&u64| state.homes.get(*home).is_some_and(|home| *home != context);
    if context != CURRENT.get() || homes.iter().any(|home| away(&home)) {
        state.strays += 1;
        trace("another context");
    }
}

fn handle() -> u64 {
    HANDLES.fetch_add(16, SeqCst)
}

unsafe fn put<T>(to: *mut T, value: T) -> Code {
    unsafe { to.write(value) };
    SUCCESS
}

// What the tests call.

/// A test begins: nothing was called, and nothing is refused.
#[unsafe(no_mangle)]
pub extern "C" fn stub_begin() {
    with(|state| {
        state.calls.clear();
        state.refusals.clear();
        state.device = HOPPER;
    });
}

/// A device of compute capability 9.0 and a driver of CUDA 12.8.
const HOPPER: [c_int; 3] = [90, 232_448, 12_080];

/// From now on, until the next test begins, the device is another one.
#[unsafe(no_mangle)]
pub extern "C" fn stub_device(capability: c_int, shared: c_int, driver: c_int) {
    with(|state| state.device = [capability, shared, driver]);
}

/// Number of calls of a function since the test began.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stub_calls(name: *const c_char) -> u64 {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("");
    with(|state| if name.is_empty() { state.calls.values().sum() } else { state.calls.get(name).copied().unwrap_or(0) })
}

/// The next `times` calls of a function answer with `code`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stub_refuse(name: *const c_char, code: Code, times: u64) {
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    with(|state| state.refusals.insert(name, (code, times)));
}

/// Live allocations.
#[unsafe(no_mangle)]
pub extern "C" fn stub_allocations() -> u64 {
    with(|state| state.memory.len() as u64)
}

/// One number of the last launch: 0–2 grid, 3–5 block, 6 shared bytes, 7 stream, 8 count of attributes, then their
/// numbers and first three words.
#[unsafe(no_mangle)]
pub extern "C" fn stub_launch(index: usize) -> u64 {
    with(|state| state.launch.as_ref().and_then(|launch| launch.words.get(index).copied()).unwrap_or(u64::MAX))
}

/// The value of an option of the last load; all ones if it was not given.
#[unsafe(no_mangle)]
pub extern "C" fn stub_jit(option: c_int) -> u64 {
    with(|state| state.jit.get(&option).copied().unwrap_or(u64::MAX))
}

// Functions that only succeed.

macro_rules! succeed {
    ($($name:ident($($ty:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $ty),*) -> Code {
            enter(stringify!($name))
        }
    )* };
}
type P = *mut c_void;
succeed! {
    cuInit(c_uint);
    cuDevicePrimaryCtxRelease_v2(c_int);
    cuModuleUnload(P);
}

macro_rules! fresh_handle {
    ($($name:ident($($ty:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(to: *mut u64, $(_: $ty),*) -> Code {
            match enter(stringify!($name)) {
                SUCCESS => {
                    let made = handle();
                    with(|state| state.handles.insert(made, CURRENT.get()));
                    unsafe { put(to, made) }
                }
                code => code,
            }
        }
    )* };
}
fresh_handle! {
    cuStreamCreate(c_uint);
    cuStreamCreateWithPriority(c_uint, c_int);
    cuEventCreate(c_uint);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWaitEvent(stream: u64, event: u64, _flags: c_uint) -> Code {
    match enter("cuStreamWaitEvent") {
        // An event from outside the capture: CUDA_ERROR_STREAM_CAPTURE_ISOLATION.
        SUCCESS if with(|state| state.captures.contains_key(&queue(stream))) => 905,
        // An event of a capture, from outside: CUDA_ERROR_INVALID_VALUE.
        SUCCESS if with(|state| state.captured_events.contains(&event)) => INVALID_VALUE,
        SUCCESS => with(|state| {
            state.order.wait(stream, event);
            SUCCESS
        }),
        code => code,
    }
}

// The device.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(to: *mut c_int) -> Code {
    match enter("cuDriverGetVersion") {
        SUCCESS => unsafe { put(to, with(|state| state.device[2])) },
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(to: *mut c_int) -> Code {
    match enter("cuDeviceGetCount") {
        SUCCESS => unsafe { put(to, 2) },
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(to: *mut c_int, ordinal: c_int) -> Code {
    match enter("cuDeviceGet") {
        SUCCESS => unsafe { put(to, ordinal) },
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(to: *mut c_char, len: c_int, _device: c_int) -> Code {
    let name = c"Stub GPU";
    unsafe { to.copy_from(name.as_ptr(), name.to_bytes_with_nul().len().min(len as usize)) };
    enter("cuDeviceGetName")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(to: *mut usize, _device: c_int) -> Code {
    unsafe { put(to, CAPACITY as usize) };
    enter("cuDeviceTotalMem_v2")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(to: *mut c_int, attribute: c_int, _device: c_int) -> Code {
    let [capability, shared, _] = with(|state| state.device);
    let value = match attribute {
        1..=3 => 1024,
        4 => 64,
        5 => c_int::MAX,
        6 | 7 => 65_535,
        16 => 132,
        75 => capability / 10,
        76 => capability % 10,
        95 | 115 => 1,
        97 => shared,
        _ => 0,
    };
    unsafe { put(to, value) };
    enter("cuDeviceGetAttribute")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(to: *mut u64, device: c_int) -> Code {
    match enter("cuDevicePrimaryCtxRetain") {
        SUCCESS => unsafe { put(to, 0xC0DE_0000 + device as u64) },
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(to: *mut u64) -> Code {
    unsafe { put(to, CURRENT.get()) };
    enter("cuCtxGetCurrent")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: u64) -> Code {
    CURRENT.set(context);
    enter("cuCtxSetCurrent")
}

thread_local!(static PUSHED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) });

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: u64) -> Code {
    PUSHED.with_borrow_mut(|pushed| pushed.push(CURRENT.replace(context)));
    enter("cuCtxPushCurrent_v2")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(to: *mut u64) -> Code {
    let before = PUSHED.with_borrow_mut(Vec::pop).unwrap_or(0);
    let _ = unsafe { put(to, CURRENT.replace(before)) };
    enter("cuCtxPopCurrent_v2")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: Code, to: *mut *const c_char) -> Code {
    let name = match code {
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        _ => return unsafe { put(to, std::ptr::null()) } + INVALID_VALUE,
    };
    unsafe { put(to, name.as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: Code, to: *mut *const c_char) -> Code {
    unsafe { cuGetErrorName(code, to) }
}

// Memory.

unsafe fn allocate(to: *mut u64, bytes: usize) -> Code {
    with(|state| {
        if state.memory.values().sum::<usize>() as u64 + bytes as u64 > CAPACITY {
            return OUT_OF_MEMORY;
        }
        let address = unsafe { alloc_zeroed(Layout::from_size_align_unchecked(bytes, 256)) } as u64;
        state.memory.insert(address, bytes);
        state.homes.insert(address, CURRENT.get());
        unsafe { put(to, address) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(to: *mut u64, bytes: usize) -> Code {
    match enter("cuMemAlloc_v2") {
        SUCCESS if bytes == 0 => INVALID_VALUE,
        SUCCESS => unsafe { allocate(to, bytes) },
        code => code,
    }
}

/// The memory is there from this place of the stream on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(to: *mut u64, bytes: usize, stream: u64) -> Code {
    match unsafe { cuMemAlloc_v2(to, bytes) } {
        SUCCESS => {
            touch(stream, unsafe { to.read() }, bytes, true);
            SUCCESS
        }
        code => code,
    }
}

/// Gives memory back at once.
unsafe fn free(address: u64) -> Code {
    match with(|state| {
        state.order.touch_by_host(address, true);
        state.order.forget(address);
        stays_home(state, 0, &[address]);
        state.homes.remove(&address);
        state.memory.remove(&address)
    }) {
        Some(bytes) => {
            unsafe { dealloc(address as *mut u8, Layout::from_size_align_unchecked(bytes, 256)) };
            SUCCESS
        }
        None => INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(address: u64) -> Code {
    match enter("cuMemFree_v2") {
        SUCCESS => unsafe { free(address) },
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeAsync(address: u64, stream: u64) -> Code {
    let code = enter("cuMemFreeAsync");
    if code != SUCCESS {
        return code;
    }
    let bytes = with(|state| state.memory.get(&address).copied().unwrap_or(0));
    touch(stream, address, bytes, true);
    with(|state| state.order.forget(address));
    unsafe { free(address) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: usize, stream: u64) -> Code {
    let code = enter("cuMemcpyHtoDAsync_v2");
    if code != SUCCESS {
        return code;
    }
    jitter();
    touch_host(stream, from as u64, bytes, false);
    if touch(stream, to, bytes, true) {
        unsafe { (to as *mut u8).copy_from(from, bytes) };
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, bytes: usize, stream: u64) -> Code {
    let code = enter("cuMemcpyDtoHAsync_v2");
    if code != SUCCESS {
        return code;
    }
    jitter();
    touch_host(stream, to as u64, bytes, true);
    if touch(stream, from, bytes, false) {
        unsafe { to.copy_from(from as *const u8, bytes) };
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyPeerAsync(to: u64, into: u64, from: u64, of: u64, bytes: usize, stream: u64) -> Code {
    match enter("cuMemcpyPeerAsync") {
        SUCCESS => unsafe {
            with(|state| {
                let home = |at: u64| state.memory.range(..=at).next_back().and_then(|(first, _)| state.homes.get(first));
                let strays = [(to, into), (from, of)].iter().filter(|(at, context)| home(*at) != Some(context)).count();
                state.strays += strays as u64;
            });
            Node::Copy(to, from, bytes).submit(stream);
            SUCCESS
        },
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(to: *mut u64, bytes: usize, _flags: c_uint) -> Code {
    match enter("cuMemHostAlloc") {
        SUCCESS if bytes as u64 > CAPACITY => OUT_OF_MEMORY,
        SUCCESS => with(|state| {
            let address = unsafe { alloc_zeroed(Layout::from_size_align_unchecked(bytes, 4096)) } as u64;
            state.pinned.insert(address, bytes);
            state.homes.insert(address, CURRENT.get());
            unsafe { put(to, address) }
        }),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(address: u64) -> Code {
    let code = enter("cuMemFreeHost");
    if code != SUCCESS {
        return code;
    }
    match with(|state| {
        stays_home(state, 0, &[address]);
        state.homes.remove(&address);
        state.order.touch_by_host(address, true);
        state.order.forget(address);
        state.pinned.remove(&address)
    }) {
        Some(bytes) => {
            unsafe { dealloc(address as *mut u8, Layout::from_size_align_unchecked(bytes, 4096)) };
            SUCCESS
        }
        None => INVALID_VALUE,
    }
}

/// `len` values of some bytes, `pitch` bytes apart.
unsafe fn fill(to: u64, pitch: usize, value: &[u8], len: usize, stream: u64) {
    unsafe { Node::Fill(to, pitch, value.to_vec(), len).submit(stream) };
}

macro_rules! memset {
    ($($row:ident $column:ident $ty:ty;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $row(to: u64, value: $ty, count: usize, stream: u64) -> Code {
            let code = enter(stringify!($row));
            if code == SUCCESS {
                unsafe { fill(to, size_of::<$ty>(), &value.to_ne_bytes(), count, stream) };
            }
            code
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $column(
            to: u64, pitch: usize, value: $ty, width: usize, height: usize, stream: u64,
        ) -> Code {
            assert_eq!(width, 1);
            let code = enter(stringify!($column));
            if code == SUCCESS {
                unsafe { fill(to, pitch, &value.to_ne_bytes(), height, stream) };
            }
            code
        }
    )* };
}
memset! {
    cuMemsetD8Async cuMemsetD2D8Async u8;
    cuMemsetD16Async cuMemsetD2D16Async u16;
    cuMemsetD32Async cuMemsetD2D32Async u32;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) -> Code {
    let code = enter("cuMemcpyDtoDAsync_v2");
    if code == SUCCESS {
        unsafe { Node::Copy(to, from, bytes).submit(stream) };
    }
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttributes(_: c_uint, _: *mut c_int, values: *mut *mut u32, address: u64) -> Code {
    let pinned = with(|state| state.pinned.range(..=address).next_back().is_some_and(|(at, len)| address < at + *len as u64));
    unsafe { (*values).write(u32::from(pinned)) };
    enter("cuPointerGetAttributes")
}

// Modules.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    to: *mut u64,
    image: *const c_char,
    count: c_uint,
    options: *const c_int,
    values: *const *mut c_char,
) -> Code {
    let code = enter("cuModuleLoadDataEx");
    let text = unsafe { CStr::from_ptr(image) }.to_str().unwrap_or("");
    let wrong = text.lines().position(|line| line.contains("not.an.instruction"));
    let pairs = (0..count as usize).map(|i| unsafe { (*options.add(i), *values.add(i) as u64) });
    let given: HashMap<c_int, u64> = pairs.collect();
    // The text is in the driver's own cache as it is, and no longer with anything behind it.
    let silent = text.starts_with("old machine code") || text.ends_with("known to the driver");
    let info = given.get(&3).copied().filter(|_| !silent);
    with(|state| state.jit = given);
    match (code, wrong) {
        (SUCCESS, _) if text.starts_with("old machine code") => 209,
        (SUCCESS, None) => {
            if let Some(info) = info {
                unsafe { (info as *mut c_char).copy_from(INFO.as_ptr(), INFO.to_bytes_with_nul().len()) };
            }
            let module = handle();
            with(|state| state.homes.insert(module, CURRENT.get()));
            unsafe { put(to, module) }
        }
        (SUCCESS, Some(at)) => {
            let log = format!(
                "ptxas application ptx input, line {}; error   : Not a name of any known instruction\0",
                at + 1
            );
            let is_error_log = |i: &usize| unsafe { *options.add(*i) } == 5;
            if let Some(i) = (0..count as usize).find(is_error_log) {
                unsafe { (*values.add(i)).copy_from(log.as_ptr().cast(), log.len()) };
            }
            INVALID_PTX
        }
        (code, _) => code,
    }
}

/// The assembler's output for every text.
const INFO: &CStr = c"ptxas info    : Function properties for saxpy\nptxas         .     16 bytes stack frame, 8 bytes spill stores, \
                      12 bytes spill loads\nptxas info    : (kernel.ptx, line 1) remark\n";

// The linker: its cubin is the text.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkCreate_v2(
    count: c_uint,
    options: *const c_int,
    values: *const *mut c_char,
    to: *mut *mut Linker,
) -> Code {
    let pairs = (0..count as usize).map(|i| unsafe { (*options.add(i), *values.add(i)) });
    let linker = Box::new(Linker { text: Vec::new(), options: pairs.collect() });
    unsafe { put(to, Box::into_raw(linker)) };
    enter("cuLinkCreate_v2")
}

pub struct Linker {
    text: Vec<u8>,
    options: Vec<(c_int, *mut c_char)>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkAddData_v2(
    linker: *mut Linker,
    _kind: c_int,
    data: *const u8,
    size: usize,
    _name: *const c_char,
    _count: c_uint,
    _options: P,
    _values: P,
) -> Code {
    let linker = unsafe { &mut *linker };
    linker.text = unsafe { std::slice::from_raw_parts(data, size) }.to_vec();
    let mut module = 0;
    enter("cuLinkAddData_v2");
    let (keys, values): (Vec<c_int>, Vec<*mut c_char>) = linker.options.iter().copied().unzip();
    unsafe { cuModuleLoadDataEx(&mut module, data.cast(), keys.len() as c_uint, keys.as_ptr(), values.as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkComplete(linker: *mut Linker, to: *mut *const u8, size: *mut usize) -> Code {
    let linker = unsafe { &*linker };
    let _ = unsafe { put(to, linker.text.as_ptr()) + put(size, linker.text.len()) };
    enter("cuLinkComplete")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkDestroy(linker: *mut Linker) -> Code {
    drop(unsafe { Box::from_raw(linker) });
    enter("cuLinkDestroy")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(to: *mut u64, image: *const c_char) -> Code {
    unsafe { cuModuleLoadDataEx(to, image, 0, std::ptr::null(), std::ptr::null()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(to: *mut u64, module: u64, name: *const c_char) -> Code {
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    match enter("cuModuleGetFunction") {
        SUCCESS if name == "missing" => NOT_FOUND,
        SUCCESS => with(|state| {
            state.functions.push(name);
            state.modules.push(module);
            unsafe { put(to, state.functions.len() as u64) }
        }),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetGlobal_v2(to: *mut u64, bytes: *mut usize, module: u64, name: *const c_char) -> Code {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("");
    match (enter("cuModuleGetGlobal_v2"), kernels::variable(name)) {
        (SUCCESS, Some(words)) => unsafe { put(to, variable(module, name)) + put(bytes, 4 * words.len()) },
        (SUCCESS, None) => NOT_FOUND,
        (code, _) => code,
    }
}

/// The address of a variable, which holds its first value when it is first asked for.
fn variable(module: u64, name: &str) -> u64 {
    with(|state| {
        *state.variables.entry((module, name.to_owned())).or_insert_with(|| {
            let words: &'static mut [u32] = Box::leak(kernels::variable(name).unwrap_or_default().into());
            let address = words.as_ptr() as u64;
            state.fixed.insert(address, 4 * words.len());
            address
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(to: *mut c_int, attribute: c_int, function: u64) -> Code {
    let spills = with(|state| state.functions.get(function as usize - 1).is_some_and(|name| name == "spills"));
    let value = match attribute {
        0 => 1024,
        1 => 1024,
        3 => if spills { 16 } else { 0 },
        4 => 32,
        5 | 6 => 90,
        _ => 0,
    };
    unsafe { put(to, value) };
    enter("cuFuncGetAttribute")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(function: u64, attribute: c_int, value: c_int) -> Code {
    if attribute == 8 {
        with(|state| state.opted_in.insert(function, value as u64));
    }
    enter("cuFuncSetAttribute")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    to: *mut c_int,
    _function: u64,
    block: c_int,
    _shared: usize,
) -> Code {
    unsafe { put(to, 2048 / block.max(1)) };
    enter("cuOccupancyMaxActiveBlocksPerMultiprocessor")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveClusters(to: *mut c_int, _function: u64, _config: P) -> Code {
    unsafe { put(to, 66) };
    enter("cuOccupancyMaxActiveClusters")
}

// Launches.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: u64,
    gx: c_uint,
    gy: c_uint,
    gz: c_uint,
    bx: c_uint,
    by: c_uint,
    bz: c_uint,
    shared: c_uint,
    stream: u64,
    params: *const *const c_void,
    _extra: P,
) -> Code {
    let words = [gx, gy, gz, bx, by, bz, shared].map(u64::from).into_iter().chain([stream, 0]).collect();
    match enter("cuLaunchKernel") {
        SUCCESS => unsafe { run(function, Launch { words }, params) },
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernelEx(
    config: *const u32,
    function: u64,
    params: *const *const c_void,
    _extra: P,
) -> Code {
    // CUlaunchConfig: seven words, padding, stream, attributes, their number.
    let word = |at: usize| u64::from(unsafe { config.add(at).read() });
    let stream = unsafe { config.add(8).cast::<u64>().read() };
    let attributes = unsafe { config.add(10).cast::<*const u32>().read() };
    let count = word(12);
    let mut words: Vec<u64> = (0..7).map(word).chain([stream, count]).collect();
    for i in 0..count as usize {
        // CUlaunchAttribute: a number, padding, 64 bytes of value.
        let at = |word: usize| u64::from(unsafe { attributes.add(18 * i + word).read() });
        words.extend([at(0), at(2), at(3), at(4)]);
    }
    match enter("cuLaunchKernelEx") {
        SUCCESS => unsafe { run(function, Launch { words }, params) },
        code => code,
    }
}

unsafe fn run(function: u64, launch: Launch, params: *const *const c_void) -> Code {
    let (name, granted) = with(|state| {
        let name = state.functions.get(function as usize - 1).cloned().unwrap_or_default();
        (name, state.opted_in.get(&function).copied().unwrap_or(47 * 1024))
    });
    if launch.words[6] > granted {
        return INVALID_VALUE;
    }
    let stream = launch.words[7];
    with(|state| {
        let module = state.modules.get(function as usize - 1).copied().unwrap_or(0);
        stays_home(state, stream, &[module]);
    });
    with(|state| state.launch = Some(launch));
    let sizes = kernels::arguments(&name).iter().enumerate();
    let bytes = |(at, size): (usize, &usize)| {
        let mut bytes = [0; 128];
        unsafe { bytes.as_mut_ptr().copy_from((*params.add(at)).cast::<u8>(), *size) };
        bytes
    };
    let module = with(|state| state.modules.get(function as usize - 1).copied().unwrap_or(0));
    let variables = kernels::named(&name).iter().map(|name| {
        let mut bytes = [0; 128];
        bytes[..8].copy_from_slice(&variable(module, name).to_ne_bytes());
        bytes
    });
    unsafe { Node::Kernel(name.clone(), sizes.map(bytes).chain(variables).collect()).submit(stream) };
    SUCCESS
}

// Time.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(to: *mut f32, _from: P, _until: P) -> Code {
    unsafe { put(to, 0.25) };
    enter("cuEventElapsedTime")
}

// Tensor maps: the stub writes down what it is given.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut u64,
    element: u32,
    rank: u32,
    address: u64,
    shape: *const u64,
    strides: *const u64,
    tile: *const u32,
    steps: *const u32,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> Code {
    let rank = rank as usize;
    let words = |list: *const u64, n: usize| (0..n).map(move |i| unsafe { list.add(i).read() });
    let halves = |list: *const u32| (0..rank).map(move |i| u64::from(unsafe { list.add(i).read() }));
    let given = [address, element.into(), rank as u64].into_iter();
    let given =
        given.chain(words(shape, rank)).chain(words(strides, rank - 1)).chain(halves(tile)).chain(halves(steps));
    let given = given.chain([interleave, swizzle, promotion, fill].map(u64::from));
    given.take(16).enumerate().for_each(|(i, word)| unsafe { map.add(i).write(word) });
    enter("cuTensorMapEncodeTiled")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeIm2col(
    map: *mut u64,
    element: u32,
    rank: u32,
    address: u64,
    shape: *const u64,
    _strides: *const u64,
    lower: *const i32,
    upper: *const i32,
    channels: u32,
    pixels: u32,
    _steps: *const u32,
    _interleave: u32,
    _swizzle: u32,
    _promotion: u32,
    _fill: u32,
) -> Code {
    let rank = rank as usize;
    let corner =
        |list: *const i32| (0..rank - 2).map(move |i| i64::from(unsafe { list.add(i).read() }).cast_unsigned());
    let given = [address, element.into(), rank as u64].into_iter();
    let given =
        given.chain((0..rank).map(|i| unsafe { shape.add(i).read() })).chain(corner(lower)).chain(corner(upper));
    let given = given.chain([channels, pixels].map(u64::from));
    given.take(16).enumerate().for_each(|(i, word)| unsafe { map.add(i).write(word) });
    enter("cuTensorMapEncodeIm2col")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeIm2colWide(
    map: *mut u64,
    element: u32,
    rank: u32,
    address: u64,
    _shape: *const u64,
    _strides: *const u64,
    lower: c_int,
    upper: c_int,
    channels: u32,
    pixels: u32,
    _steps: *const u32,
    interleave: u32,
    mode: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> Code {
    let corners = [lower, upper].map(|offset| i64::from(offset).cast_unsigned());
    let given = [channels, pixels, interleave, mode, swizzle, promotion, fill].map(u64::from);
    let given = [address, element.into(), rank.into()].into_iter().chain(corners).chain(given);
    given.enumerate().for_each(|(i, word)| unsafe { map.add(i).write(word) });
    enter("cuTensorMapEncodeIm2colWide")
}
