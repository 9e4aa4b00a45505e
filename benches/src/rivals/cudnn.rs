//! cuDNN: the engines that its heuristics name first for a graph are tried, and the quickest one plays. What is computed stands
//! in `attention` and `norm`, how the library is told in `graph` and `descriptor`.
#![allow(unsafe_code, reason = "calls of the library")]

mod attention;
mod descriptor;
mod graph;
mod norm;

pub use attention::Attention;
pub use norm::Norm;

use cudarc::cudnn::sys;
use descriptor::{Descriptor, Draft, checked};
use graph::{Argument, Arguments, Graph};
use ptx_launch::prelude::*;
use ptx_launch::{Error, Result};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::rc::Rc;

use sys::cudnnBackendAttributeName_t as Name;
use sys::cudnnBackendDescriptorType_t as Kind;
use sys::cudnnBackendHeurMode_t as Mode;

/// Number of engines that are tried for a graph. Attention has fewer; norms have thirty, and each takes half a second
/// to build.
const CANDIDATES: usize = 8;
/// The most bytes of workspace that an engine gets.
const WORKSPACE: i64 = 1 << 28;
/// The library that cuDNN loads when its graphs are first used.
const PART: &str = "libcudnn_graph.so.9";
/// The oldest version that has these graphs and explains what is wrong with one.
const OLDEST: usize = 9_00_00;

/// The library, on a stream.
pub struct Dnn {
    handle: Rc<Handle>,
    device: Device,
}

struct Handle(sys::cudnnHandle_t);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by `open`, dropped once, by the last plan. A failure leaves nothing to do.
        let _ = unsafe { sys::cudnnDestroy(self.0) };
    }
}

/// A graph with its engine chosen.
#[derive(Clone)]
struct Engine {
    plan: Descriptor,
    arguments: Arguments,
    handle: Rc<Handle>,
    workspace: Rc<Buffer<u8>>,
}

/// An engine, on some memory.
pub struct Plan {
    engine: Engine,
    pack: Descriptor,
}

/// The version of the library.
///
/// # Errors
/// That it is not here, or too old.
pub fn version() -> Result<String> {
    // SAFETY: it only looks for the file.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::other("cuDNN is not here: there is no libcudnn.so"));
    }
    // SAFETY: the library itself would load it. Where it cannot, it ends the process.
    if let Err(why) = unsafe { libloading::Library::new(PART) } {
        return Err(Error::other(format!("cuDNN is here in parts only: {why}")));
    }
    // SAFETY: every version has this function.
    let version = unsafe { sys::cudnnGetVersion() };
    if version < OLDEST {
        return Err(Error::other(format!("cuDNN {version} is here, and {OLDEST} or newer is needed")));
    }
    Ok(format!("cuDNN {}.{}.{}", version / 10_000, version / 100 % 100, version % 100))
}

impl Dnn {
    /// Opens the library for launches on a stream.
    ///
    /// # Errors
    /// Why it is not here.
    pub fn open(device: &Device, stream: &Stream) -> Result<Dnn> {
        let cuda = stream.as_cuda().ok_or_else(|| Error::other("cuDNN needs a CUDA device"))?;
        version()?;
        let mut handle = null_mut();
        // SAFETY: the library writes the handle.
        checked(unsafe { sys::cudnnCreate(&raw mut handle) }, || "it does not start".to_owned())?;
        let handle = Rc::new(Handle(handle));
        // SAFETY: both are alive; the device keeps its stream.
        let status = unsafe { sys::cudnnSetStream(handle.0, cuda.cu_stream().cast()) };
        checked(status, || "it takes no stream".to_owned())?;
        Ok(Dnn { handle, device: device.clone() })
    }

    /// The quickest engine for any of these graphs, which are to compute the same on this memory.
    ///
    /// # Errors
    /// Why there is none.
    pub fn plan(&self, graphs: Vec<Result<Graph>>, addresses: &[u64], stream: &Stream) -> Result<Plan> {
        let (mut plans, mut reasons) = (Vec::new(), Vec::new());
        for graph in graphs {
            let found = graph.and_then(|graph| self.plans(graph, addresses, &mut reasons));
            plans.extend(kept(found, &mut reasons).unwrap_or_default());
        }
        let best =
            super::quickest(plans, stream, |plan: &Plan| plan.launch().inspect_err(|why| reasons.push(why.clone())));
        let words = || reasons.iter().map(Error::to_string).collect::<Vec<_>>().join("; ");
        best.into_iter().next().ok_or_else(|| Error::other(format!("cuDNN: no plan: {}", words())))
    }

    /// Plans for the engines that the heuristics name first and that can be built.
    fn plans(&self, graph: Graph, addresses: &[u64], reasons: &mut Vec<Error>) -> Result<Vec<Plan>> {
        let (graph, arguments) = graph.finish(self.handle.0)?;
        let plan = |engine: &Descriptor| self.engine(engine, &arguments)?.on(addresses);
        let mut plans = Vec::new();
        for mode in [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_FALLBACK] {
            if plans.is_empty() {
                let named = kept(named(&graph, mode), reasons).unwrap_or_default();
                plans.extend(named.iter().filter_map(|engine| kept(plan(engine), reasons)).take(CANDIDATES));
            }
        }
        Ok(plans)
    }

    fn engine(&self, named: &Descriptor, arguments: &Arguments) -> Result<Engine> {
        let plan = Draft::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &[self.handle.0])?
            .link(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[named])?
            .finish()?;
        let bytes: i64 = plan.get(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        if bytes > WORKSPACE {
            return Err(Error::other(format!("an engine wants {bytes} bytes of workspace")));
        }
        let workspace = Rc::new(self.device.zeros(bytes.max(1) as usize)?);
        Ok(Engine { plan, arguments: arguments.clone(), handle: self.handle.clone(), workspace })
    }
}

/// The value, if there is one; otherwise the reason is noted.
fn kept<T>(result: Result<T>, reasons: &mut Vec<Error>) -> Option<T> {
    result.map_err(|why| reasons.push(why)).ok()
}

/// The engines that a heuristic names for a graph, with what they are set to.
fn named(graph: &Descriptor, mode: Mode) -> Result<Vec<Descriptor>> {
    let heuristic = Draft::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
        .link(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph])?
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[mode])?
        .finish()?;
    heuristic.list(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
}

impl Engine {
    fn on(self, addresses: &[u64]) -> Result<Plan> {
        let pointer = |(_, argument): &(i64, Argument)| match argument {
            Argument::Memory(place) => addresses[*place] as *const c_void,
            Argument::Number(number) => std::ptr::from_ref(number).cast(),
        };
        let names: Vec<i64> = self.arguments.iter().map(|(name, _)| *name).collect();
        let pointers: Vec<*const c_void> = self.arguments.iter().map(pointer).collect();
        let pack = Draft::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &names)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &pointers)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[self.workspace.address() as *const c_void])?
            .finish()?;
        Ok(Plan { engine: self, pack })
    }
}

impl Plan {
    /// The same on other memory.
    ///
    /// # Errors
    /// An error of the library.
    pub fn on(&self, addresses: &[u64]) -> Result<Plan> {
        self.engine.clone().on(addresses)
    }

    /// Submits it to the library's stream.
    ///
    /// # Errors
    /// An error of the library.
    pub fn launch(&self) -> Result<()> {
        self.engine.plan.execute(self.engine.handle.0, &self.pack)
    }
}
