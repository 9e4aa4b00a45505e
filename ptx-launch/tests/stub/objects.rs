//! Graphs, arrays, textures and surfaces.

use crate::*;

/// A node of a graph.
#[derive(Clone)]
pub enum Node {
    /// A kernel and the bytes of its arguments.
    Kernel(String, Vec<[u8; 128]>),
    /// `(to, pitch, value, len)`
    Fill(u64, usize, Vec<u8>, usize),
    /// `(to, from, bytes)`
    Copy(u64, u64, usize),
}

impl Node {
    /// Runs it on a stream, or adds it to the capture that the stream is in.
    pub unsafe fn submit(self, stream: u64) {
        jitter();
        let captured = with(|state| {
            stays_home(state, stream, &[]);
            state.captures.get_mut(&queue(stream)).map(|capture| capture.nodes.push(self.clone())).is_some()
        });
        if !captured {
            unsafe { self.run(stream) };
        }
    }

    unsafe fn run(&self, stream: u64) {
        match self {
            Node::Kernel(name, args) => unsafe { kernels::run(name, args, stream) },
            Node::Fill(to, pitch, value, len) => {
                let bytes = if *len == 0 { 0 } else { (len - 1) * pitch + value.len() };
                if touch(stream, *to, bytes, true) {
                    let at = |i: usize| (*to as usize + i * pitch) as *mut u8;
                    (0..*len).for_each(|i| unsafe { at(i).copy_from(value.as_ptr(), value.len()) });
                }
            }
            Node::Copy(to, from, bytes) => {
                if touch(stream, *from, *bytes, false) & touch(stream, *to, *bytes, true) {
                    unsafe { (*to as *mut u8).copy_from(*from as *const u8, *bytes) };
                }
            }
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: u64, _mode: c_int) -> Code {
    match enter("cuStreamBeginCapture_v2") {
        SUCCESS if stream == 0 => 900,
        SUCCESS if with(|state| state.captures.contains_key(&queue(stream))) => 901,
        SUCCESS => with(|state| {
            let (id, graph) = (handle(), handle());
            let capture = Recording { id, graph, context: context_of(state, stream), nodes: Vec::new() };
            state.captures.insert(queue(stream), capture);
            SUCCESS
        }),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: u64, to: *mut u64) -> Code {
    let code = enter("cuStreamEndCapture");
    if code == INVALID_CONTEXT {
        return code;
    }
    let Some(Recording { graph, nodes, .. }) = with(|state| state.captures.remove(&queue(stream))) else { return 903 };
    with(|state| state.graphs.insert(graph, nodes));
    unsafe { put(to, graph) };
    code
}

/// A capture that goes on.
pub struct Recording {
    id: u64,
    graph: u64,
    pub context: u64,
    nodes: Vec<Node>,
}

/// An object whose destructor is called when no graph holds it.
pub struct User {
    held: u64,
    release: extern "C" fn(u64),
    graphs: Vec<u64>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: u64,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut u64,
    _nodes: P,
    _count: *mut usize,
) -> Code {
    let found = with(|state| state.captures.get(&queue(stream)).map(|capture| (capture.id, capture.graph)));
    let (known, made) = found.unwrap_or_default();
    let _ = unsafe { put(status, c_int::from(found.is_some())) + put(id, known) + put(graph, made) };
    enter("cuStreamGetCaptureInfo_v2")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuUserObjectCreate(
    to: *mut u64,
    held: u64,
    release: extern "C" fn(u64),
    _count: c_uint,
    _flags: c_uint,
) -> Code {
    match enter("cuUserObjectCreate") {
        SUCCESS => {
            let object = handle();
            with(|state| state.users.insert(object, User { held, release, graphs: Vec::new() }));
            unsafe { put(to, object) }
        }
        code => code,
    }
}

/// Destroys the objects that no graph holds. Their destructors run on a thread without a context, as the driver's does.
fn release_users(free: impl Fn(u64, &User) -> bool) {
    let users: Vec<User> = with(|state| state.users.extract_if(|object, user| free(*object, user)).map(|(_, user)| user).collect());
    if !users.is_empty() {
        std::thread::spawn(move || users.iter().for_each(|user| (user.release)(user.held))).join().unwrap();
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuUserObjectRelease(object: u64, _count: c_uint) -> Code {
    release_users(|at, _| at == object);
    enter("cuUserObjectRelease")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphRetainUserObject(graph: u64, object: u64, _count: c_uint, _flags: c_uint) -> Code {
    match enter("cuGraphRetainUserObject") {
        SUCCESS => with(|state| {
            let known = state.graphs.contains_key(&graph) || state.captures.values().any(|capture| capture.graph == graph);
            match state.users.get_mut(&object) {
                Some(user) if known => {
                    user.graphs.push(graph);
                    SUCCESS
                }
                _ => INVALID_VALUE,
            }
        }),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: u64, to: *mut c_int) -> Code {
    unsafe { put(to, c_int::from(with(|state| state.captures.contains_key(&queue(stream))))) };
    enter("cuStreamIsCapturing")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(to: *mut u64, graph: u64, _flags: u64) -> Code {
    match enter("cuGraphInstantiateWithFlags") {
        SUCCESS => with(|state| {
            let Some(nodes) = state.graphs.get(&graph).cloned() else { return INVALID_VALUE };
            let executable = handle();
            state.graphs.insert(executable, nodes);
            state.users.values_mut().filter(|user| user.graphs.contains(&graph)).for_each(|user| user.graphs.push(executable));
            unsafe { put(to, executable) }
        }),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(executable: u64, stream: u64) -> Code {
    match enter("cuGraphLaunch") {
        SUCCESS => {
            jitter();
            let Some(nodes) = with(|state| state.graphs.get(&executable).cloned()) else { return INVALID_VALUE };
            // A graph in a capture is a part of what is recorded.
            let captured = with(|state| {
                stays_home(state, stream, &[]);
                let capture = state.captures.get_mut(&queue(stream));
                capture.map(|capture| capture.nodes.extend(nodes.iter().cloned())).is_some()
            });
            if !captured {
                nodes.iter().for_each(|node| unsafe { node.run(stream) });
            }
            SUCCESS
        }
        code => code,
    }
}

fn destroy(name: &'static str, graph: u64) -> Code {
    let code = enter(name);
    if code == INVALID_CONTEXT {
        return code;
    }
    if with(|state| state.graphs.remove(&graph)).is_none() {
        return INVALID_VALUE;
    }
    with(|state| state.users.values_mut().for_each(|user| user.graphs.retain(|holder| *holder != graph)));
    release_users(|_, user| user.graphs.is_empty());
    code
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphDestroy(graph: u64) -> Code {
    destroy("cuGraphDestroy", graph)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecDestroy(executable: u64) -> Code {
    destroy("cuGraphExecDestroy", executable)
}

// An array is memory of its own; its handle is the address.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuArray3DCreate_v2(to: *mut u64, description: *const usize) -> Code {
    let (sizes, format) = unsafe { ([0, 1, 2].map(|i| description.add(i).read().max(1)), description.add(3).cast::<u32>()) };
    let (format, channels) = unsafe { (format.read(), format.add(1).read()) };
    let bytes = if matches!(format, 1 | 8) { 1 } else if matches!(format, 2 | 9 | 16) { 2 } else { 4 };
    match enter("cuArray3DCreate_v2") {
        SUCCESS => unsafe { allocate(to, sizes.iter().product::<usize>() * bytes * channels as usize) },
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuArrayDestroy(array: u64) -> Code {
    match enter("cuArrayDestroy") {
        SUCCESS => unsafe { free(array) },
        code => code,
    }
}

/// `CUDA_MEMCPY3D`: two sides of 12 words, then bytes of a row, rows, slices. Whole arrays alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy3DAsync_v2(copy: *const u64, stream: u64) -> Code {
    let code = enter("cuMemcpy3DAsync_v2");
    if code != SUCCESS {
        return code;
    }
    jitter();
    let word = |at: usize| unsafe { copy.add(at).read() };
    let side = |at: usize| match word(at + 4) as u32 {
        1 => (word(at + 5), false),
        _ => (word(at + 7), true),
    };
    let ((from, from_array), (to, to_array)) = (side(0), side(11));
    let bytes = (word(22) * word(23) * word(24)) as usize;
    if (!from_array || touch(stream, from, bytes, false)) & (!to_array || touch(stream, to, bytes, true)) {
        unsafe { (to as *mut u8).copy_from(from as *const u8, bytes) };
    }
    SUCCESS
}

/// A texture or surface: the address of its memory, from a `CUDA_RESOURCE_DESC`.
unsafe fn object(to: *mut u64, resource: *const u64) -> Code {
    let object = handle();
    with(|state| {
        state.homes.insert(object, CURRENT.get());
        state.objects.insert(object, unsafe { resource.add(1).read() })
    });
    unsafe { put(to, object) }
}

/// Nothing may use an object that is destroyed.
fn destroy_object(object: u64) -> Code {
    with(|state| {
        stays_home(state, 0, &[object]);
        state.homes.remove(&object);
        state.order.touch_by_host(object, true);
        state.order.forget(object);
        state.order.misuses += u64::from(state.objects.remove(&object).is_none());
    });
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTexObjectCreate(to: *mut u64, resource: *const u64, _sampling: P, _view: P) -> Code {
    unsafe { object(to, resource) };
    enter("cuTexObjectCreate")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuSurfObjectCreate(to: *mut u64, resource: *const u64) -> Code {
    unsafe { object(to, resource) };
    enter("cuSurfObjectCreate")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuTexObjectDestroy(object: u64) -> Code {
    match enter("cuTexObjectDestroy") {
        SUCCESS => destroy_object(object),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuSurfObjectDestroy(object: u64) -> Code {
    match enter("cuSurfObjectDestroy") {
        SUCCESS => destroy_object(object),
        code => code,
    }
}
