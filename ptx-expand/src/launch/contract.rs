//! Contracts on machine code: `no_local`, `no_spills`, `max_registers = 128`, `occupancy = 2`.

use crate::compile::{Compiled, Promised};
use crate::kernel::Reader;
use crate::launchable::Launchable;
use proc_macro2::TokenStream;
use ptx_core::diag::codes;
use ptx_core::span::Span;
use ptx_target::Contract;
use quote::quote;

impl Reader {
    /// Gives each entry the contract of its kernel. Reports an occupancy of blocks whose size no text has.
    pub fn take_contracts(&mut self, kernels: &[Launchable], compiled: &mut Compiled) {
        for (index, kernel) in kernels.iter().enumerate().filter(|(_, kernel)| !kernel.launch.contract.is_empty()) {
            let options =
                kernel.launch.promised.iter().map(|option| (option.to_string(), self.host.token(option.span())));
            let options: Vec<(String, Span)> = options.collect();
            let given = number(kernel.launch.shared.as_ref());
            let is_dynamic = compiled.used_by(index).any(|used| used.dynamic.is_some());
            let entries: Vec<_> =
                compiled.entries_of(index).iter().map(|entry| (entry.name.clone(), entry.dynamic)).collect();
            for (name, of_type) in entries {
                let dynamic = match (is_dynamic, of_type.or(given)) {
                    (_, Some(bytes)) => u32::try_from(bytes).ok(),
                    (false, None) => Some(0),
                    (true, None) => None,
                };
                let threads = compiled.block_threads.get(&name).copied();
                if kernel.launch.contract.occupancy > 0 && threads.zip(dynamic).is_none() {
                    self.unknown_occupancy(&options, threads.is_none());
                    break;
                }
                let contract = Contract {
                    threads: threads.unwrap_or(0),
                    dynamic_shared: dynamic.unwrap_or(0),
                    ..kernel.launch.contract
                };
                let kernel = kernel.name.to_string();
                compiled.contracts.insert(name, Promised { contract, kernel, options: options.clone() });
            }
        }
        compiled.failed |= self.failed();
    }

    fn unknown_occupancy(&mut self, options: &[(String, Span)], lacks_threads: bool) {
        if self.failed() {
            return;
        }
        let Some((_, span)) = options.iter().find(|(option, _)| option == "occupancy") else { return };
        let (lacks, help) = match lacks_threads {
            true => ("the threads of a block", "write `block = 256` with a constant, or `max_block = 256`"),
            false => (
                "the bytes of dynamic shared memory",
                "write `shared = 49152`, a number, or give the variable a type with a size",
            ),
        };
        self.error_at(&codes::P0905, *span, format!("`occupancy` is promised, and {lacks} are not known here"), help);
    }
}

/// The value of a literal.
fn number(expr: Option<&syn::Expr>) -> Option<u64> {
    match expr? {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) => number.base10_parse().ok(),
        _ => None,
    }
}

/// A contract as an expression.
pub fn written(contract: &Contract, rt: &TokenStream) -> TokenStream {
    let Contract { no_local, no_spills, max_registers, occupancy, threads, dynamic_shared } = *contract;
    quote!(#rt::Contract {
        no_local: #no_local,
        no_spills: #no_spills,
        max_registers: #max_registers,
        occupancy: #occupancy,
        threads: #threads,
        dynamic_shared: #dynamic_shared,
    })
}
