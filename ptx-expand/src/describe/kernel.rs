//! A compiled kernel as data.

use super::expr::{Expr, Field, Named, Names, Plain};
use super::sizes::wrong_size;
use super::value::{self, Scope, Value};
use super::{
    Condition, Dim, Distinct, From, Kernel, Kind, Launch, Param, Problem, Region, Shown, Table, Taken, TensorMap,
    function, problem,
};
use crate::argument::{self, Argument, MapOption, Passing, Tile};
use crate::attribute::{self, Memory};
use crate::compile::Compiled;
use crate::launchable::Launchable;
use crate::tokens::places::{Place, find_places};
use crate::tokens::{self, ends, source_text};
use proc_macro2::TokenStream;
use ptx_core::isa::{Class, Type};
use ptx_language::{Entry, EntryParam, StructLayout};
use ptx_target::Contract;
use quote::ToTokens;
use std::cell::RefCell;
use syn::ext::IdentExt;

/// The kernel with this number: once, or once for each instance.
pub fn describe(index: usize, kernel: &Launchable, compiled: &Compiled, scope: &Scope) -> Vec<Kernel> {
    compiled
        .entries_of(index)
        .iter()
        .map(|entry| Instance::new(kernel, entry, scope, compiled).describe(compiled))
        .collect()
}

/// A constant of an attribute, and the value that it has here.
#[cfg(feature = "proved")]
pub struct Evaluated {
    /// The instance whose arguments it may name.
    pub instance: Option<usize>,
    /// The constant.
    pub expr: syn::Expr,
    /// Its value.
    pub value: Value,
}

#[cfg(feature = "proved")]
/// The same where a compiler of Rust evaluates the attribute as well: with the constants that must have these values there.
pub fn describe_strictly(
    index: usize,
    kernel: &Launchable,
    compiled: &Compiled,
    scope: &Scope,
) -> (Vec<Kernel>, Vec<Evaluated>) {
    let mut evaluated = Vec::new();
    let one = |entry: &Entry| {
        let instance = Instance { is_strict: true, ..Instance::new(kernel, entry, scope, compiled) };
        let (launch, constants) = instance.launch(compiled);
        let constants = constants.into_iter().chain(instance.constant_dims());
        evaluated.extend(constants.map(|(expr, value)| Evaluated { instance: entry.instance, expr, value }));
        Kernel { launch, ..instance.describe(compiled) }
    };
    (compiled.entries_of(index).iter().map(one).collect(), evaluated)
}

/// A kernel with the arguments of one of its instances.
struct Instance<'a> {
    kernel: &'a Launchable,
    entry: &'a Entry,
    scope: &'a Scope,
    /// The constants among the arguments.
    constants: Vec<(String, Value)>,
    /// The types among them.
    types: Vec<(String, String)>,
    dims: Vec<String>,
    contract: Option<Contract>,
    is_strict: bool,
}

impl<'a> Instance<'a> {
    fn new(kernel: &'a Launchable, entry: &'a Entry, scope: &'a Scope, compiled: &Compiled) -> Instance<'a> {
        let arguments = entry.instance.and_then(|at| kernel.instances.get(at)).into_iter().flatten();
        let (mut constants, mut types) = (Vec::new(), Vec::new());
        for (generic, argument) in kernel.generics.iter().zip(arguments) {
            match generic {
                syn::GenericParam::Const(generic) => {
                    let value = scope.value(argument, &Vec::new());
                    constants.extend(value.map(|value| (generic.ident.to_string(), value)));
                }
                // An argument that the reader chose stands nowhere in the source.
                syn::GenericParam::Type(generic) => {
                    let argument = tokens::spaced(argument.to_token_stream());
                    let size = syn::parse_str(&argument).ok().and_then(|ty| argument::size(&ty));
                    let size = size.and_then(|size| i64::try_from(size).ok());
                    constants.extend(size.map(|size| (value::size_name(&generic.ident.to_string()), Value::Int(size))));
                    types.push((generic.ident.to_string(), argument));
                }
                syn::GenericParam::Lifetime(_) => {}
            }
        }
        let dims = entry.params.iter().filter_map(|param| match param {
            EntryParam::Dim(name) => Some(name.clone()),
            EntryParam::Value(_) | EntryParam::Map(_) => None,
        });
        let contract = compiled.contracts.get(&entry.name).map(|promised| promised.contract);
        Instance { kernel, entry, scope, constants, types, dims: dims.collect(), contract, is_strict: false }
    }

    fn describe(&self, compiled: &Compiled) -> Kernel {
        let docs = self.kernel.attributes.iter().filter_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        });
        Kernel {
            name: self.kernel.name.unraw().to_string(),
            entry: self.entry.name.clone(),
            doc: docs.collect::<Vec<_>>().join("\n"),
            params: self.kernel.params.iter().map(|argument| self.param(argument)).collect(),
            dims: self.dims.clone(),
            taken: self.taken(compiled),
            maps: self.kernel.maps.iter().map(|map| self.map(map)).collect(),
            launch: self.launch(compiled).0,
        }
    }

    fn param(&self, argument: &Argument) -> Param {
        let kind = match (argument.passing(), Tile::from_type(&argument.ty)) {
            (Passing::Read(element) | Passing::Write(element), Some(tile)) => Kind::Tile {
                element: self.type_name(&element),
                dims: tile.dims.iter().map(|dim| self.dim(&dim.to_string())).collect(),
                written: tile.mutable,
            },
            (Passing::Read(element), None) => Kind::Slice { element: self.type_name(&element), written: false },
            (Passing::Write(element), None) => Kind::Slice { element: self.type_name(&element), written: true },
            (Passing::Map, _) => Kind::Map,
            (Passing::Texture, _) => Kind::Object("texture"),
            (Passing::Surface, _) => Kind::Object("surface"),
            (Passing::Value(ty), _) => Kind::Value(self.type_name(&ty)),
        };
        let is_memory = matches!(kind, Kind::Slice { .. } | Kind::Tile { .. });
        let align = argument.align.as_ref().filter(|_| is_memory).and_then(|align| self.alignment(align));
        Param { name: argument.text.clone(), kind, align }
    }

    /// The alignment of memory; nothing if only a compiler can evaluate it.
    fn alignment(&self, expr: &syn::Expr) -> Option<u64> {
        match self.scope.value(expr, &self.constants)? {
            Value::Int(align) => u64::try_from(align).ok(),
            _ => None,
        }
    }

    /// The alignments of memory.
    fn alignments(&self) -> impl Iterator<Item = &syn::Expr> {
        let is_memory = |argument: &&Argument| matches!(argument.passing(), Passing::Read(_) | Passing::Write(_));
        self.kernel.params.iter().filter(is_memory).filter_map(|argument| argument.align.as_ref())
    }

    /// The name of a type, with the instance's in place of a parameter.
    fn type_name(&self, ty: &syn::Type) -> String {
        let name = source_text(ty);
        self.types.iter().find(|(parameter, _)| *parameter == name).map_or(name, |(_, argument)| argument.clone())
    }

    fn dim(&self, name: &str) -> Dim {
        match self.dims.iter().position(|dim| dim == name) {
            Some(at) => Dim::Named(at),
            None => Dim::Constant(name.to_owned(), self.constant(name).unwrap_or(0)),
        }
    }

    fn constant(&self, name: &str) -> Option<u32> {
        let path = syn::parse_str::<syn::Expr>(name).ok()?;
        match self.scope.value(&path, &self.constants)? {
            Value::Int(number) => u32::try_from(number).ok(),
            _ => None,
        }
    }

    fn taken(&self, compiled: &Compiled) -> Vec<Taken> {
        let layouts = compiled.params.get(&self.entry.name).map(Vec::as_slice).unwrap_or_default();
        let params = self.kernel.params.len();
        let mut dims = 0..;
        let taken = |(param, (size, align)): (&EntryParam, &(u64, u64))| {
            let (name, from) = match param {
                EntryParam::Dim(name) => (name.clone(), From::Dim(dims.next()?)),
                EntryParam::Value(at) if *at < params => (self.kernel.params.get(*at)?.text.clone(), From::Param(*at)),
                EntryParam::Value(at) => (self.kernel.maps.get(at - params)?.name.clone(), From::Map(at - params)),
                EntryParam::Map(of) => {
                    let at = self.kernel.maps.iter().position(|map| map.of == *of)?;
                    (self.kernel.maps.get(at)?.name.clone(), From::Map(at))
                }
            };
            Some(Taken { name, size: *size, align: *align, from })
        };
        self.entry.params.iter().zip(layouts).filter_map(taken).collect()
    }

    fn map(&self, map: &argument::Map) -> TensorMap {
        let mut described = TensorMap { of: map.of, name: map.name.clone(), tile: Vec::new(), words: Vec::new() };
        for option in &map.options {
            match option {
                MapOption::Box(extents) => {
                    let extent = |expr: &syn::Expr| match self.scope.value(expr, &self.constants) {
                        Some(Value::Int(extent)) => usize::try_from(extent).unwrap_or(0),
                        _ => 0,
                    };
                    described.tile = extents.iter().map(extent).collect();
                }
                MapOption::Word { method, ty, variant } => {
                    described.words.push([method, ty, variant].map(ToString::to_string));
                }
            }
        }
        described
    }

    /// The host's half of the attribute, and the constants in it, if they are noted.
    fn launch(&self, compiled: &Compiled) -> (Result<Launch, Problem>, Vec<(syn::Expr, Value)>) {
        let names = self.names(compiled);
        (self.launch_with(&names), names.evaluated.map(RefCell::into_inner).unwrap_or_default())
    }

    /// The extents of tiles that are constants, and alignments.
    #[cfg(feature = "proved")]
    fn constant_dims(&self) -> Vec<(syn::Expr, Value)> {
        let tiles = self.kernel.params.iter().filter_map(|argument| Tile::from_type(&argument.ty));
        let names =
            tiles.flat_map(|tile| tile.dims).map(|dim| dim.to_string()).filter(|name| !self.dims.contains(name));
        let extents = names.filter_map(|name| Some((syn::parse_str(&name).ok()?, self.constant(&name)?)));
        let aligns =
            self.alignments().filter_map(|align| Some((align.clone(), self.scope.value(align, &self.constants)?)));
        extents.map(|(expr, extent)| (expr, Value::Int(extent.into()))).chain(aligns).collect()
    }

    fn launch_with(&self, names: &Names<'_>) -> Result<Launch, Problem> {
        let launch = &self.kernel.launch;
        let expr = |expr: &Option<syn::Expr>| expr.as_ref().map(|expr| names.compile(expr)).transpose();
        if let Some(unknown) = self.unknown() {
            return Err(unknown);
        }
        let described = Launch {
            contract: self.contract.unwrap_or_default(),
            requires: launch
                .requires
                .iter()
                .map(|condition| self.condition(names, condition))
                .collect::<Result<_, _>>()?,
            tables: launch.tables.iter().map(|table| self.table(names, table)).collect::<Result<_, _>>()?,
            regions: launch.regions.iter().map(|region| self.region(names, region)).collect::<Result<_, _>>()?,
            offsets: launch.offsets.iter().map(|buffer| memory_of(names, buffer)).collect::<Result<_, _>>()?,
            distinct: launch.distinct.iter().map(|own| self.distinct(names, own)).collect::<Result<_, _>>()?,
            grid: expr(&launch.grid)?,
            block: expr(&launch.block)?,
            cluster: expr(&launch.cluster)?,
            shared: expr(&launch.shared)?,
            dynamic: self.entry.dynamic.filter(|_| launch.sized_shared),
            vouched: launch.vouched.is_some(),
            proved: self.kernel.is_safe_by_proof(),
            cooperative: launch.cooperative,
            pdl: launch.pdl,
        };
        let params: Vec<Param> = self.kernel.params.iter().map(|argument| self.param(argument)).collect();
        wrong_size(launch, &described, &params).map_or(Ok(described), Err)
    }

    /// A parameter whose elements are different numbers.
    fn distinct(&self, names: &Names<'_>, own: &attribute::Distinct) -> Result<Distinct, Problem> {
        let below = own.below.as_ref().map(|below| names.compile(below)).transpose()?;
        Ok(Distinct { of: memory_of(names, &own.of)?, below })
    }

    /// Elements of a parameter that are addresses.
    fn table(&self, names: &Names<'_>, table: &attribute::Table) -> Result<Table, Problem> {
        let (argument, element, len) = match &table.memory {
            Memory::Argument(argument) => {
                let at = memory_of(names, argument)?;
                (Some(at), None, Expr::Len(at))
            }
            Memory::Elements(element, len) => (None, Some(element), names.compile(len)?),
        };
        let of_argument = argument.and_then(|at| match self.param(self.kernel.params.get(at)?).kind {
            Kind::Slice { element, .. } | Kind::Tile { element, .. } => Some(element),
            _ => None,
        });
        let of_type = element.map(|element| self.element(element));
        Ok(Table {
            of: memory_of(names, &table.of)?,
            first: table.first.as_ref().map_or(Ok(Expr::Int(0)), |first| names.compile(first))?,
            end: names.compile(&table.end)?,
            argument,
            element: of_argument.or(of_type).unwrap_or_default(),
            len,
        })
    }

    /// A number in a struct that is an address.
    fn region(&self, names: &Names<'_>, region: &attribute::Region) -> Result<Region, Problem> {
        let (first, last) = ends(&region.of);
        let of = match names.compile(&region.of)? {
            Expr::Field(at, field) if field.ty == Plain::Unsigned(8) => (at, field),
            _ => {
                let message = format!("`{}` is no `u64` in a struct", source_text(&region.of));
                return Err(problem("", message, first, last));
            }
        };
        let (name, element) = (source_text(&region.of), self.element(&region.element));
        Ok(Region { name, of, element, len: names.compile(&region.len)? })
    }

    /// The type of elements, with the instance's in place of a parameter.
    fn element(&self, written: &TokenStream) -> String {
        let name = tokens::spaced(written.clone());
        self.types.iter().find(|(parameter, _)| *parameter == name).map_or(name, |(_, argument)| argument.clone())
    }

    /// An error for a constant extent that has no value here.
    fn unknown(&self) -> Option<Problem> {
        let tiles = self.kernel.params.iter().filter_map(|argument| Tile::from_type(&argument.ty));
        let constants = tiles.flat_map(|tile| tile.dims).filter(|dim| !self.dims.contains(&dim.to_string()));
        let mut unknown = constants.filter(|name| self.constant(&name.to_string()).is_none());
        let boxes = self.kernel.maps.iter().flat_map(|map| &map.options).filter_map(|option| match option {
            MapOption::Box(extents) => Some(extents),
            MapOption::Word { .. } => None,
        });
        let mut extents = boxes.flatten().filter(|extent| self.scope.value(extent, &self.constants).is_none());
        let mut aligns = self.alignments().filter(|align| self.alignment(align).is_none());
        let name = unknown.next().map(|name| unknown_value(&name));
        name.or_else(|| extents.next().or_else(|| aligns.next()).map(unknown_value))
    }

    fn names(&self, compiled: &Compiled) -> Names<'_> {
        let params = self.kernel.params.iter().enumerate().map(|(at, argument)| {
            let named = match argument.passing() {
                Passing::Read(_) | Passing::Write(_) => Named::Slice(at),
                Passing::Value(_) if argument.known_size().is_some() => Named::Scalar(at),
                _ => Named::Other,
            };
            (argument.text.clone(), named)
        });
        Names {
            scope: self.scope,
            generics: self.constants.clone(),
            fields: self.fields(compiled),
            structs: self.structs(compiled),
            params: params.collect(),
            dims: &self.dims,
            free: None,
            bound: Vec::new(),
            depth: 0,
            evaluated: self.is_strict.then(RefCell::default),
        }
    }

    /// The parameters that are structs.
    fn taken_structs<'c>(&self, compiled: &'c Compiled) -> impl Iterator<Item = (usize, &Argument, &'c StructLayout)> {
        self.kernel.params.iter().enumerate().filter_map(move |(at, argument)| {
            let Passing::Value(ty) = argument.passing() else { return None };
            let name = self.type_name(&ty);
            let name = name.rsplit("::").next()?.trim();
            let layout = compiled.structs.iter().find(|layout| layout.name == name)?;
            Some((at, argument, layout))
        })
    }

    fn structs(&self, compiled: &Compiled) -> Vec<(String, String)> {
        self.taken_structs(compiled).map(|(_, argument, layout)| (argument.text.clone(), layout.name.clone())).collect()
    }

    /// The numbers in the structs of the signature.
    fn fields(&self, compiled: &Compiled) -> Vec<(String, Expr)> {
        let structs = self.taken_structs(compiled).map(|(at, argument, layout)| (at, argument.text.clone(), layout));
        let numbers = structs.flat_map(|(at, name, layout)| {
            let number = move |(path, offset, ty): &(String, u64, Type)| {
                Some((format!("{name}.{path}"), Expr::Field(at, Field { offset: *offset, ty: plain(*ty)? })))
            };
            layout.numbers.iter().filter_map(number)
        });
        numbers.collect()
    }

    fn condition(&self, names: &Names<'_>, condition: &syn::Expr) -> Result<Condition, Problem> {
        let params = names.params.iter().map(|(name, _)| name.split('.').next().unwrap_or(name));
        let known: Vec<&str> = params.chain(self.dims.iter().map(String::as_str)).collect();
        let mut places = Vec::new();
        find_places(condition.to_token_stream(), &|name| known.iter().any(|known| name == known), &mut places);
        let shown = places.iter().filter_map(|place| self.shown(names, place)).collect();
        Ok(Condition { holds: names.compile(condition)?, text: source_text(condition), shown })
    }

    /// The text of a place, and its value: of memory the number of elements, of a struct the fields that its function reads.
    fn shown(&self, names: &Names<'_>, place: &Place) -> Option<(String, Shown)> {
        let name = place.name();
        if let Some((_, ty)) = names.structs.iter().find(|(param, _)| *param == name) {
            let Some(method) = &place.method else {
                return Some((name.clone(), Shown::Whole(ty.clone(), whole(&names.fields, &name)?)));
            };
            let fields = self.scope.contract(ty)?.contract.fields_read(&method.to_string());
            let stored = fields.into_iter().map(|field| {
                let value = function::stored(&names.fields, &format!("{name}.{field}"))?;
                Some((field, value))
            });
            let stored = stored.collect::<Option<_>>()?;
            return Some((name, Shown::Struct(ty.clone(), stored)));
        }
        let number = |expr| Some((name.clone(), Shown::Value(expr)));
        match names.params.iter().find(|(param, _)| *param == name) {
            Some((_, Named::Slice(at))) => Some((format!("{name}.len()"), Shown::Value(Expr::Len(*at)))),
            Some((_, Named::Scalar(at))) => number(Expr::Argument(*at)),
            Some((_, Named::Other)) => None,
            None => match self.dims.iter().position(|dim| *dim == name) {
                Some(at) => number(Expr::Dim(at)),
                None => number(function::stored(&names.fields, &name)?),
            },
        }
    }
}

/// All fields of a struct; nothing if one is a struct itself.
fn whole(fields: &[(String, Expr)], path: &str) -> Option<Vec<(String, Expr)>> {
    let mut found: Vec<(String, Expr)> = Vec::new();
    for (field, _) in fields {
        let Some(rest) = field.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')) else { continue };
        let name = rest.split('[').next().unwrap_or(rest);
        if found.iter().all(|(known, _)| known != name) {
            found.push((name.to_owned(), function::stored(fields, &format!("{path}.{name}"))?));
        }
    }
    found.iter().all(|(name, _)| !name.contains('.')).then_some(found)
}

/// The type of a number of Rust. Those of half precision have no arithmetic in host expressions.
fn plain(ty: Type) -> Option<Plain> {
    let bytes = u8::try_from(ty.bytes()).ok()?;
    match ty.class() {
        Class::Unsigned if bytes <= 8 => Some(Plain::Unsigned(bytes)),
        Class::Signed if bytes <= 8 => Some(Plain::Signed(bytes)),
        Class::Float if bytes >= 4 => Some(Plain::Float(bytes)),
        _ => None,
    }
}

/// The number of the parameter that memory in `addresses(…)`, `offsets(…)` or `distinct(…)` is.
fn memory_of(names: &Names<'_>, expr: &syn::Expr) -> Result<usize, Problem> {
    let (first, last) = ends(expr);
    match names.param(expr) {
        Some(Named::Slice(at)) => Ok(at),
        _ => Err(problem("", format!("`{}` is no memory among the parameters", source_text(expr)), first, last)),
    }
}

/// The error of a constant that only a compiler of Rust can evaluate.
fn unknown_value(node: &impl ToTokens) -> Problem {
    let (first, last) = ends(node);
    problem("", format!("the value of `{}` is unknown without a compiler of Rust", source_text(node)), first, last)
}
