//! The launches of a kernel's attribute, as the prover reads them.

use crate::describe::{self, Dim, Expr, From, Kernel, Kind, Operator, TensorMap};
use ptx_prove::{Contract, Distinct, Passed, Region, Table};

/// The names of the extents that a launch chooses.
const GRID: [&str; 3] = ["grid.x", "grid.y", "grid.z"];

/// A message, and the fix.
type Refused = (String, String);

/// The launches that a kernel's attribute admits.
///
/// # Errors
/// An attribute that does not say enough: the message, and what to write.
pub fn contract(kernel: &Kernel) -> Result<Contract, Refused> {
    let launch = kernel.launch.as_ref().map_err(|problem| {
        let help = "write numbers, or the constants of this `#[ptx_module]`, and operators, `min`, `max`, `div_ceil`, lengths and dimensions";
        (problem.message.clone(), help.to_owned())
    })?;
    let block = launch.block.as_ref().and_then(extents).ok_or_else(|| {
        (format!("`{}` has no constant `block`", kernel.name), "write `block = 256` in its attribute".to_owned())
    })?;
    let shared = match (&launch.shared, launch.dynamic) {
        (Some(Expr::Int(bytes)), _) => u64::try_from(*bytes).unwrap_or(0),
        (Some(_), _) => {
            let help = "write a number or a constant, or give the variable a size";
            return Err(("the bytes of dynamic shared memory depend on the launch".to_owned(), help.to_owned()));
        }
        (None, bytes) => bytes.unwrap_or(0),
    };
    let cluster = match &launch.cluster {
        None => [1; 3],
        Some(cluster) => extents(cluster)
            .ok_or_else(|| (format!("`{}` has no constant `cluster`", kernel.name), "write a number".to_owned()))?,
    };
    let mut assume: Vec<Expr> = launch.requires.iter().map(|condition| condition.holds.clone()).collect();
    assume.extend(kernel.params.iter().enumerate().filter_map(|(at, param)| match &param.kind {
        Kind::Tile { dims, .. } => Some(tile(at, dims)),
        _ => None,
    }));
    let elements: Vec<u64> = kernel.params.iter().map(|param| element(&param.kind)).collect();
    let aligns = kernel.taken.iter().map(|taken| match taken.from {
        // A view begins at any element. More than its size is checked by the launch.
        From::Param(at) => {
            let declared = kernel.params.get(at).and_then(|param| param.align).unwrap_or(1);
            elements.get(at).map(|bytes| declared.max(*bytes))
        }
        _ => None,
    });
    let passed = |from: From| match from {
        From::Param(at) => Passed::Argument(at),
        From::Dim(at) => Passed::Number(at),
        From::Map(_) => Passed::Other,
    };
    let tables = launch.tables.iter().filter_map(|table| addresses(kernel, table));
    let distinct = launch.distinct.iter().map(|own| Distinct { argument: own.of, below: own.below.clone() });
    // Without `grid`, the caller of the launch chooses it in all dimensions, those that the kernel does not read included.
    let mut numbers = kernel.dims.clone();
    let grid = launch.grid.clone().unwrap_or_else(|| {
        let extents = GRID.iter().zip(numbers.len()..).map(|(_, at)| Expr::Dim(at)).collect();
        numbers.extend(GRID.map(str::to_owned));
        Expr::List(extents)
    });
    Ok(Contract {
        block,
        cluster,
        grid: Some(grid),
        shared,
        assume,
        params: kernel.taken.iter().map(|taken| passed(taken.from)).collect(),
        aligns: aligns.collect(),
        elements,
        align: Some(1),
        absent: true,
        signed: Vec::new(),
        overlaps: launch.pdl,
        cooperative: launch.cooperative,
        boxes: boxes(kernel),
        maps: kernel.maps.iter().map(|map| (map.name.clone(), map.of)).collect(),
        mapped: Vec::new(),
        tables: tables.collect(),
        regions: launch.regions.iter().filter_map(region).collect(),
        offsets: launch.offsets.clone(),
        distinct: distinct.collect(),
        numbers,
        partial: true,
        samples: false,
    })
}

/// Bytes of the boxes of the tensor maps that a launch makes, by the names of the maps.
#[must_use]
pub fn boxes(kernel: &Kernel) -> Vec<(String, u64)> {
    let bytes = |map: &TensorMap| {
        let elements = map.tile.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent as u64))?;
        let each = kernel.params.get(map.of).map(|param| element(&param.kind)).filter(|bytes| *bytes > 0)?;
        Some((map.name.clone(), elements.checked_mul(each)?))
    };
    kernel.maps.iter().filter_map(bytes).collect()
}

/// Elements of a parameter that are addresses. Memory like that of a parameter is aligned as that is.
fn addresses(kernel: &Kernel, table: &describe::Table) -> Option<Table> {
    let element = Some(bytes(&table.element)).filter(|bytes| *bytes > 0)?;
    let declared = table.argument.and_then(|at| kernel.params.get(at)?.align).unwrap_or(1);
    Some(Table {
        argument: table.of,
        entries: [table.first.clone(), table.end.clone()],
        len: table.len.clone(),
        element,
        align: declared.max(element),
        of: table.argument,
    })
}

/// A number in a struct that is an address.
fn region(region: &describe::Region) -> Option<Region> {
    let element = Some(bytes(&region.element)).filter(|bytes| *bytes > 0)?;
    let ((argument, field), len) = (region.of, region.len.clone());
    Some(Region { name: region.name.clone(), argument, field, len, element, align: element })
}

/// A tile has at least as many elements as its extents say.
fn tile(at: usize, dims: &[Dim]) -> Expr {
    let extent = |dim: &Dim| match dim {
        Dim::Named(at) => Expr::Dim(*at),
        Dim::Constant(_, extent) => Expr::Int((*extent).into()),
    };
    let both = |operator, a, b| Expr::Binary(operator, Box::new([a, b]), String::new());
    let product = dims.iter().map(extent).reduce(|a, b| both(Operator::Mul, a, b)).unwrap_or(Expr::Int(1));
    both(Operator::Ge, Expr::Len(at), product)
}

/// Constant extents.
fn extents(expr: &Expr) -> Option<[u32; 3]> {
    let number = |expr: &Expr| match expr {
        Expr::Int(number) => u32::try_from(*number).ok(),
        _ => None,
    };
    let mut extents = [1; 3];
    match expr {
        Expr::List(parts) if parts.len() <= 3 => {
            for (extent, part) in extents.iter_mut().zip(parts) {
                *extent = number(part)?;
            }
        }
        other => extents[0] = number(other)?,
    }
    Some(extents)
}

/// Bytes of the elements of memory; zero for a struct, and for what is no memory.
pub(super) fn element(kind: &Kind) -> u64 {
    match kind {
        Kind::Slice { element, .. } | Kind::Tile { element, .. } => bytes(element),
        _ => 0,
    }
}

/// Bytes of a type; zero for a struct.
fn bytes(element: &str) -> u64 {
    ELEMENTS.iter().find(|(name, _)| *name == element).map_or(0, |(_, bytes)| *bytes)
}

const ELEMENTS: [(&str, u64); 18] = [
    ("u8", 1),
    ("i8", 1),
    ("e4m3", 1),
    ("e5m2", 1),
    ("u16", 2),
    ("i16", 2),
    ("f16", 2),
    ("bf16", 2),
    ("u32", 4),
    ("i32", 4),
    ("f32", 4),
    ("f16x2", 4),
    ("bf16x2", 4),
    ("u64", 8),
    ("i64", 8),
    ("f64", 8),
    ("u128", 16),
    ("i128", 16),
];
