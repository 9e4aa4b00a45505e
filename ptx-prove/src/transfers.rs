//! Global memory that bulk copies access. They are ordered by barriers in memory and by fences between proxies, which `races` does not compare with
//! accesses of global memory. So no race is proved only where a copy reads what nothing in the launch writes.

use crate::contract::{Contract, Passed};
use crate::machine::Machine;
use crate::races::stores;
use crate::trace::{Access, Kind, MapUse, What};
use ptx_core::ir::Space;

/// The instructions whose order is open, and the fact that is missing.
pub(crate) fn disorder(machine: &Machine<'_>, contract: &Contract) -> Vec<(usize, String)> {
    let trace = &machine.trace;
    let name = |access: &Access| machine.bases[access.base].name.as_str();
    let global = trace.accesses.iter().filter(|access| machine.bases[access.base].space == Space::Global);
    let (copies, others): (Vec<&Access>, Vec<&Access>) =
        global.partition(|access| matches!(access.kind, Kind::Take | Kind::Signal));
    let writes: Vec<&Access> =
        others.into_iter().filter(|own| matches!(own.kind, Kind::Write | Kind::Atomic)).collect();
    let mut found = Vec::new();
    for copy in &copies {
        if copy.kind == Kind::Signal {
            found.push((copy.inst, format!("bulk copies to `{}` are not compared with other accesses", name(copy))));
        } else if writes
            .iter()
            .chain(copies.iter().filter(|own| own.kind == Kind::Signal))
            .any(|own| own.base == copy.base)
        {
            found.push((
                copy.inst,
                format!("a bulk copy reads `{}`, which the kernel writes: their order is not described", name(copy)),
            ));
        }
    }
    let written: Vec<&Access> =
        writes.into_iter().chain(copies.into_iter().filter(|own| own.kind == Kind::Signal)).collect();
    found.extend(trace.maps.iter().filter_map(|copy| Some((copy.inst, by_map(machine, contract, copy, &written)?))));
    found
}

/// The fact that is missing about a copy by a tensor map, in a kernel with these writes of global memory.
fn by_map(machine: &Machine<'_>, contract: &Contract, copy: &MapUse, written: &[&Access]) -> Option<String> {
    let argument = |map: &String| contract.maps.iter().find(|(name, _)| name == map).map(|(_, argument)| *argument);
    let Some(map) = &copy.map else {
        return Some("the tensor map is chosen at run time, so that the memory of the copy is not known".to_owned());
    };
    let has_own = stores::mapped(contract, copy).is_some();
    if copy.writes {
        return (!stores::are_apart(machine, contract, copy)).then(|| match has_own {
            true => format!("two copies to memory by the tensor map `{map}` may write the same elements"),
            false => format!("copies to memory by the tensor map `{map}` are not compared with other accesses"),
        });
    }
    if has_own {
        let mut stores = machine.trace.maps.iter().filter(|own| own.writes);
        // Memory without a name may be this.
        let is_written = stores.any(|own| own.map == copy.map || stores::mapped(contract, own).is_none());
        return is_written.then(|| {
            format!("a copy by the tensor map `{map}` reads what the kernel writes: their order is not described")
        });
    }
    let Some(argument) = argument(map) else {
        let is_alone = written.is_empty() && !machine.trace.maps.iter().any(|own| own.writes);
        return (!is_alone).then(|| {
            format!("it is not said which buffer the tensor map `{map}` describes, and the kernel writes memory")
        });
    };
    let is_same = |base: usize| match machine.bases[base].what {
        What::Param(param) => contract.params.get(param) == Some(&Passed::Argument(argument)),
        _ => false,
    };
    let is_written = written.iter().any(|own| is_same(own.base));
    is_written
        .then(|| format!("a copy by the tensor map `{map}` reads what the kernel writes: their order is not described"))
}
