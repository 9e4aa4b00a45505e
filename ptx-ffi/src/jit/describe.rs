//! The description of a compiled kernel as that of a function: the one that `#[export]` writes.

use crate::dtype::DType;
use crate::function::{Dim, Element, Function, Instance, Kind, NAMES, Param, TensorKind, Work};
use ptx_jit::describe::{self, From, Kernel};

/// The function of a kernel, for the life of the process.
///
/// # Errors
/// The reason why functions cannot take its parameters.
pub(super) fn describe(kernel: &Kernel, work: Box<Work>) -> Result<&'static Function, String> {
    let params = kernel.params.iter().enumerate().map(|(at, param)| of_param(kernel, at, param));
    let params: Vec<Param> = params.collect::<Result<_, _>>()?;
    // Callers of functions have no way to choose one.
    if kernel.launch.as_ref().is_ok_and(|launch| launch.grid.is_none()) {
        return Err(format!(
            "`{0}` cannot be called from Python: its attribute has no `grid`; write `grid = 1` or `grid = N.div_ceil(128)`",
            kernel.name
        ));
    }
    if params.len() > crate::call::PARAMS {
        return Err(format!(
            "`{}` has {} parameters; at most {} can be passed",
            kernel.name,
            params.len(),
            crate::call::PARAMS
        ));
    }
    if kernel.dims.len() >= NAMES {
        return Err(format!(
            "`{}` has {} dimensions; at most {} can be passed",
            kernel.name,
            kernel.dims.len(),
            NAMES - 1
        ));
    }
    let name = text(&kernel.name);
    let instances = vec![Instance { types: &[], call: Box::leak(work) }];
    let function = Function {
        name,
        label: name,
        doc: text(&kernel.doc),
        params: Vec::leak(params),
        instances: Vec::leak(instances),
        backward: None,
        parallel: &[],
    };
    Ok(Box::leak(Box::new(function)))
}

fn of_param(kernel: &Kernel, at: usize, param: &describe::Param) -> Result<Param, String> {
    let refused = |found: &str| {
        format!("`{}` cannot be called from Python: its parameter `{}` is a {found}", kernel.name, param.name)
    };
    let element = |name: &str| {
        dtype(name).map(Element::Fixed).ok_or_else(|| refused(&format!("tensor of `{name}`, which no framework has")))
    };
    let kind = match &param.kind {
        describe::Kind::Slice { element: name, written } => {
            let dims = &[Dim::Flat];
            Kind::Tensor(TensorKind { written: *written, element: element(name)?, rank: 1, dims, align: 1 })
        }
        describe::Kind::Tile { element: name, dims, written } => {
            let dims: Vec<Dim> = dims.iter().map(|dim| of_dim(kernel, dim)).collect();
            let (rank, dims) = (dims.len(), Vec::leak(dims));
            Kind::Tensor(TensorKind { written: *written, element: element(name)?, rank, dims, align: 1 })
        }
        describe::Kind::Value(ty) => match number(ty) {
            Some(kind) => kind,
            None => {
                let taken = kernel.taken.iter().find(|taken| taken.from == From::Param(at));
                Kind::Bytes(taken.map_or(0, |taken| taken.size) as usize)
            }
        },
        describe::Kind::Map => {
            return Err(refused("TensorMap; take a `Tile` with `#[tma(…)]`, whose map is made at the launch"));
        }
        describe::Kind::Object(name) => return Err(refused(name)),
    };
    Ok(Param { name: text(&param.name), kind, optional: false, default: None })
}

fn of_dim(kernel: &Kernel, dim: &describe::Dim) -> Dim {
    match dim {
        describe::Dim::Named(at) => Dim::Name(text(kernel.dims.get(*at).map_or("", String::as_str)), at + 1),
        describe::Dim::Constant(_, extent) => Dim::Size(*extent as usize),
    }
}

/// The type that frameworks have for elements of this type of kernels.
pub(super) fn dtype(name: &str) -> Option<DType> {
    Some(match name {
        "i8" => DType::I8,
        "i16" => DType::I16,
        "i32" => DType::I32,
        "i64" => DType::I64,
        "u8" | "e4m3" => DType::U8,
        "u16" => DType::U16,
        "u32" | "f16x2" | "bf16x2" => DType::U32,
        "u64" => DType::U64,
        "f16" => DType::F16,
        "bf16" => DType::BF16,
        "f32" => DType::F32,
        "f64" => DType::F64,
        _ => return None,
    })
}

/// The kind of a number.
fn number(ty: &str) -> Option<Kind> {
    let int = |low: i64, high: u64| Some(Kind::Int(low, high));
    match dtype(ty)? {
        DType::I8 => int(i8::MIN.into(), i8::MAX as u64),
        DType::I16 => int(i16::MIN.into(), i16::MAX as u64),
        DType::I32 => int(i32::MIN.into(), i32::MAX as u64),
        DType::I64 => int(i64::MIN, i64::MAX as u64),
        DType::U8 => int(0, u8::MAX.into()),
        DType::U16 => int(0, u16::MAX.into()),
        DType::U32 => int(0, u32::MAX.into()),
        DType::U64 => int(0, u64::MAX),
        ty @ (DType::F16 | DType::BF16 | DType::F32 | DType::F64) => Some(Kind::Float(ty)),
    }
}

fn text(text: &str) -> &'static str {
    String::leak(text.to_owned())
}
