//! The door of a function: what a call needs to know of it, and the ways in.

use crate::arguments::{Arguments, scalar};
use crate::object::{Object, Other, Outcome, Ptr, attribute_of, call, items, name, numbers, tuple};
use crate::pattern::Pattern;
use crate::recorder::Recorder;
use crate::shapes::Shapes;
use crate::torch::{Torch, torch};
use ptx_ffi::rt::{Any, Made, PARAMS, Raise};
use pyo3_ffi::{
    Py_EQ, Py_Ellipsis, Py_False, Py_None, PyDict_New, PyDict_Next, PyDict_SetItem, PyObject_IsTrue,
    PyObject_RichCompareBool, PyObject_SetAttr, PyTuple_Check, PyTuple_GetItem, PyTuple_Size,
};
use std::cell::{Cell, OnceCell};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null;

/// `__ptx_ffi_infer`.
pub(crate) type Infer = unsafe extern "C" fn(*const c_void, *const Any, c_int, u32, *mut Made) -> c_int;
/// `__ptx_ffi_invoke`.
pub(crate) type Invoke =
    unsafe extern "C" fn(*const c_void, *const Any, c_int, *mut c_void, *mut c_void, Raise) -> c_int;

/// A parameter.
pub(crate) struct Param {
    pub(crate) is_tensor: bool,
    /// An integer that may not fit 64 bits with a sign.
    is_wide: bool,
    /// Its name, interned.
    name: Ptr,
    /// The value in a call without it; null where it is required.
    missing: Ptr,
    /// The same as the library reads it, for a number or a text.
    default: Option<Any>,
    pub(crate) pattern: Pattern,
}

/// A function. Its objects live as long as the process, as functions do.
pub(crate) struct Door {
    pub(crate) function: *const c_void,
    pub(crate) infer: Infer,
    pub(crate) invoke: Invoke,
    pub(crate) params: Vec<Param>,
    pub(crate) shapes: Shapes,
    /// Inputs and scalars in the order of Rust; positional arguments, which may also be all parameters.
    inputs: Vec<usize>,
    positional: Vec<usize>,
    takes_all: bool,
    /// Inputs that are tensors.
    tensors: Vec<usize>,
    outputs: Vec<usize>,
    main: Vec<usize>,
    saved: Vec<usize>,
    /// Tensors with a gradient.
    differentiable: u32,
    /// What its gradient reads: tensors, and numbers by their names.
    kept: Vec<usize>,
    scalars: Vec<usize>,
    /// It has a gradient, in its only output.
    records: bool,
    /// The class whose `apply` autograd calls; made for the first recorded call.
    recorder: OnceCell<Recorder>,
    state: Ptr,
    /// Python's code for what the door does not take.
    slowly: Slowly,
    names: Names,
}

struct Slowly {
    forward: Ptr,
    op: Ptr,
    op_saved: Ptr,
    op_out: Ptr,
}

/// Interned names of attributes of autograd's context.
struct Names {
    to_save: Ptr,
    materialize_grads: Ptr,
    numbers: Ptr,
}

/// A call that autograd records: its forward function finds the arguments as the call has read them. Autograd itself sees the tensors alone, since it
/// looks at everything else for long.
struct Recorded<'a> {
    door: &'a Door,
    arguments: Cell<Option<&'a mut Arguments>>,
    values: &'a [Ptr],
}

thread_local! {
    /// The innermost recorded call of this thread.
    static RECORDED: Cell<*const Recorded<'static>> = const { Cell::new(null()) };
}

/// The call around one, which is the innermost one again at the end of its scope.
struct Around(*const Recorded<'static>);

impl Drop for Around {
    fn drop(&mut self) {
        RECORDED.set(self.0);
    }
}

/// An operator of `torch.library`.
#[derive(Clone, Copy)]
pub(crate) enum Operator {
    /// Makes and returns the outputs.
    Plain,
    /// The same with the outputs that the gradient reads.
    Saved,
    /// Writes into tensors.
    Out,
}

fn bits(numbers: &[usize]) -> u32 {
    numbers.iter().fold(0, |bits, at| bits | 1u32.checked_shl(*at as u32).unwrap_or(0))
}

impl Door {
    /// The door of the function behind `state`, an `Operators` of Python.
    pub(crate) fn new(state: Ptr, function: *const c_void, infer: Infer, invoke: Invoke) -> Outcome<Door> {
        let keep = |object: Ptr, name: &CStr| attribute_of(object, name).map(Object::release);
        let list = |object: Ptr, name: &CStr| numbers(&attribute_of(object, name)?);
        let described = keep(state, c"function")?;
        let params = items(keep(described, c"params")?)?;
        if params.len() > PARAMS {
            return Err(Other::Elsewhere);
        }
        let main = list(described, c"main_outputs")?;
        let differentiable = bits(&list(state, c"differentiable_inputs")?);
        let records = main.len() == 1 && differentiable != 0 && list(state, c"silent")?.is_empty();
        Ok(Door {
            function,
            infer,
            invoke,
            params: params.iter().map(|param| Param::read(param.get())).collect::<Outcome<_>>()?,
            shapes: Shapes::default(),
            inputs: list(described, c"inputs")?,
            positional: list(described, c"passed")?,
            takes_all: is_true(&attribute_of(described, c"takes_all")?),
            tensors: list(described, c"tensors")?,
            outputs: list(described, c"outputs")?,
            saved: list(state, c"saved_here")?,
            main,
            differentiable,
            kept: list(state, c"kept")?,
            scalars: list(state, c"scalars")?,
            records,
            recorder: OnceCell::new(),
            state: Object::share(state).release(),
            slowly: Slowly {
                forward: keep(state, c"forward_slowly")?,
                op: keep(state, c"op_slowly")?,
                op_saved: keep(state, c"op_saved_slowly")?,
                op_out: keep(state, c"op_out_slowly")?,
            },
            names: Names {
                to_save: name(c"to_save")?,
                materialize_grads: name(c"materialize_grads")?,
                numbers: name(c"numbers")?,
            },
        })
    }

    /// A call with the values of all parameters. `None` for an output that is not optional and `...` for any output stand for a new one.
    pub(crate) fn call(&self, values: &mut [Ptr]) -> Outcome<Object> {
        let torch = torch()?;
        let wanted = bits(&self.main) | self.take_wanted(values);
        let mut arguments = Arguments::new();
        arguments.read(self, torch, values)?;
        if torch.is_watched()? || torch.has_profiler() {
            return Err(Other::Elsewhere);
        }
        let given = self.given(values);
        if torch.is_recording()? && self.wants_gradient(torch, values)? {
            if given != 0 || !self.records {
                return Err(Other::Elsewhere);
            }
            return self.record(values, &mut arguments);
        }
        arguments.make(self, torch, values, wanted & !given)?;
        arguments.invoke(self, torch)?;
        if given != 0 {
            self.count_changes(torch, values, given)?;
        }
        result(values, self.outputs.iter())
    }

    /// The outputs that are `...`, a bit each; they are `None` afterwards.
    fn take_wanted(&self, values: &mut [Ptr]) -> u32 {
        // SAFETY: both live as long as the interpreter.
        let (ellipsis, none) = unsafe { (Py_Ellipsis(), Py_None()) };
        let mut wanted = 0;
        for at in &self.outputs {
            if values[*at] == ellipsis {
                values[*at] = none;
                wanted |= 1 << at;
            }
        }
        wanted
    }

    /// The outputs that are passed, a bit each.
    fn given(&self, values: &[Ptr]) -> u32 {
        self.outputs.iter().filter(|at| !is_none(values[**at])).fold(0, |bits, at| bits | 1 << at)
    }

    fn count_changes(&self, torch: &Torch, values: &[Ptr], given: u32) -> Outcome<()> {
        let mut written = [std::ptr::null_mut(); PARAMS];
        let outputs = self.outputs.iter().filter(|at| given & 1 << **at != 0);
        written.iter_mut().zip(outputs).for_each(|(written, at)| *written = values[*at]);
        torch.count_change(written.into_iter().take(given.count_ones() as usize))
    }

    /// Returns true if a tensor requires a gradient. One that has none is Python's.
    fn wants_gradient(&self, torch: &Torch, values: &[Ptr]) -> Outcome<bool> {
        let mut wanting = false;
        for (at, (param, value)) in self.params.iter().zip(values).enumerate() {
            if param.is_tensor && !is_none(*value) && torch.requires_grad(*value)? {
                if self.differentiable & 1 << at == 0 {
                    return Err(Other::Elsewhere);
                }
                wanting = true;
            }
        }
        Ok(wanting)
    }

    /// A call that autograd records.
    fn record(&self, values: &[Ptr], read: &mut Arguments) -> Outcome<Object> {
        let recorder = self.recorder()?;
        let recorded = Recorded { door: self, arguments: Cell::new(Some(read)), values };
        let _around = Around(RECORDED.replace((&raw const recorded).cast()));
        let passed = tuple(self.tensors.iter().map(|at| values[*at]))?;
        let made = recorder.call(&passed)?;
        // Python's code returns a tuple.
        // SAFETY: the object is alive; a tuple lends its item.
        unsafe {
            match PyTuple_Check(made.get()) != 0 && PyTuple_Size(made.get()) == 1 {
                true => Ok(Object::share(PyTuple_GetItem(made.get(), 0))),
                false => Ok(made),
            }
        }
    }

    fn recorder(&self) -> Outcome<&Recorder> {
        if self.recorder.get().is_none() {
            let made = Recorder::new(&attribute_of(self.state, c"recorder")?)?;
            // Another thread may have made one while Python worked; the first one stays.
            let _ = self.recorder.set(made);
        }
        self.recorder.get().ok_or(Other::Elsewhere)
    }

    /// Makes the outputs of a recorded call and what its gradient reads, and keeps them.
    fn forward(&self, context: Ptr, values: &[Ptr], arguments: &mut Arguments) -> Outcome<Object> {
        let mut every = [std::ptr::null_mut(); PARAMS];
        let with_outputs = every.get_mut(..values.len()).ok_or(Other::Elsewhere)?;
        with_outputs.copy_from_slice(values);
        match self.forward_here(context, with_outputs, arguments) {
            Err(Other::Elsewhere) => {
                let function = attribute_of(self.state, c"function")?;
                let inputs = self.inputs.iter().map(|at| values[*at]);
                let every: Vec<Ptr> = [context, function.get()].into_iter().chain(inputs).collect();
                call(self.slowly.forward, Some(&tuple(every.into_iter())?))
            }
            outcome => outcome,
        }
    }

    fn forward_here(&self, context: Ptr, values: &mut [Ptr], arguments: &mut Arguments) -> Outcome<Object> {
        let torch = torch()?;
        arguments.make(self, torch, values, bits(&self.saved))?;
        if !arguments.is_floating(self.main[0]) {
            return Err(Other::Elsewhere);
        }
        arguments.invoke(self, torch)?;
        let mut kept = [std::ptr::null_mut(); PARAMS];
        kept.iter_mut().zip(&self.kept).for_each(|(kept, at)| *kept = values[*at]);
        // SAFETY: the objects are alive.
        unsafe {
            set(context, self.names.to_save, tuple(kept.iter().copied().take(self.kept.len()))?.get())?;
            set(context, self.names.materialize_grads, Py_False())?;
            // The context's class has the defaults.
            if self.scalars.iter().any(|at| self.params[*at].default != Some(arguments.value(*at))) {
                let numbers = Object::own(PyDict_New())?;
                for at in &self.scalars {
                    PyDict_SetItem(numbers.get(), self.params[*at].name, values[*at]);
                }
                set(context, self.names.numbers, numbers.get())?;
            }
        }
        Ok(Object::share(values[self.main[0]]))
    }

    /// The values of all parameters, from those of the inputs.
    fn spread(&self, inputs: &[Ptr]) -> Outcome<[Ptr; PARAMS]> {
        if inputs.len() != self.inputs.len() {
            return Err(Other::Elsewhere);
        }
        // SAFETY: it lives as long as the interpreter.
        let mut values = [unsafe { Py_None() }; PARAMS];
        for (at, value) in self.inputs.iter().zip(inputs) {
            values[*at] = *value;
        }
        Ok(values)
    }

    /// An operator where PyTorch may record derivatives.
    pub(crate) fn operate(&self, operator: Operator, every: &[Ptr]) -> Outcome<Object> {
        match self.operate_here(operator, every) {
            Err(Other::Elsewhere) => {
                let slowly = match operator {
                    Operator::Plain => self.slowly.op,
                    Operator::Saved => self.slowly.op_saved,
                    Operator::Out => self.slowly.op_out,
                };
                call(slowly, Some(&tuple(every.iter().copied())?))
            }
            outcome => outcome,
        }
    }

    fn operate_here(&self, operator: Operator, passed: &[Ptr]) -> Outcome<Object> {
        let torch = torch()?;
        let mut spread = match operator {
            Operator::Out => [std::ptr::null_mut(); PARAMS],
            _ => self.spread(passed)?,
        };
        let values = spread.get_mut(..self.params.len()).unwrap_or(&mut []);
        if matches!(operator, Operator::Out) {
            if passed.len() != values.len() {
                return Err(Other::Elsewhere);
            }
            values.copy_from_slice(passed);
        }
        let mut arguments = Arguments::new();
        arguments.read(self, torch, values)?;
        // Operators have such a number as a negative one.
        let is_negative = |(at, param): (usize, &Param)| param.is_wide && arguments.value(at).is_negative();
        if self.params.iter().enumerate().any(is_negative) {
            return Err(Other::Elsewhere);
        }
        let derives = || Ok(torch.is_recording()? && self.wants_gradient(torch, values)?);
        if torch.is_watched()? || derives()? {
            return Err(Other::Elsewhere);
        }
        let outputs = match operator {
            Operator::Plain => &self.main,
            Operator::Saved => &self.saved,
            Operator::Out => &self.outputs,
        };
        let given = self.given(values);
        let missing = if matches!(operator, Operator::Out) { bits(&self.main) } else { bits(outputs) };
        arguments.make(self, torch, values, missing & !given)?;
        arguments.invoke(self, torch)?;
        if matches!(operator, Operator::Out) {
            self.count_changes(torch, values, given)?;
            // SAFETY: it lives as long as the interpreter.
            return Ok(Object::share(unsafe { Py_None() }));
        }
        result(values, outputs.iter())
    }

    /// The values of all parameters, from the arguments of a call: a tuple, and a dictionary of those that are named.
    pub(crate) fn bind(&self, positional: Ptr, named: Ptr) -> Outcome<[Ptr; PARAMS]> {
        let mut values = [std::ptr::null_mut(); PARAMS];
        self.bind_positional(positional, &mut values)?;
        self.bind_named(named, &mut values)?;
        for (value, param) in values.iter_mut().zip(&self.params) {
            // `None` for a parameter stands for its default.
            if value.is_null() || is_none(*value) {
                *value = param.missing;
            }
            if value.is_null() {
                return Err(Other::Elsewhere);
            }
        }
        Ok(values)
    }

    fn bind_positional(&self, positional: Ptr, values: &mut [Ptr; PARAMS]) -> Outcome<()> {
        // SAFETY: the reference is alive. Something else than a tuple is an error.
        let count = unsafe { PyTuple_Size(positional) };
        let Ok(count) = usize::try_from(count) else { return Err(Other::Raised) };
        // SAFETY: the tuple has an item with this number, which it lends.
        let item = |at: usize| unsafe { PyTuple_GetItem(positional, at as isize) };
        if self.takes_all && count == self.params.len() {
            values.iter_mut().zip(0..count).for_each(|(value, at)| *value = item(at));
            return Ok(());
        }
        if count > self.positional.len() {
            return Err(Other::Elsewhere);
        }
        for (at, position) in self.positional.iter().enumerate().take(count) {
            *values.get_mut(*position).ok_or(Other::Elsewhere)? = item(at);
        }
        Ok(())
    }

    fn bind_named(&self, named: Ptr, values: &mut [Ptr; PARAMS]) -> Outcome<()> {
        let (mut place, mut name, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the dictionary is alive, and nobody changes it meanwhile; it lends its names and values.
        while unsafe { PyDict_Next(named, &raw mut place, &raw mut name, &raw mut value) } != 0 {
            let at = self.position(name).ok_or(Other::Elsewhere)?;
            match values.get_mut(at) {
                Some(free) if free.is_null() => *free = value,
                _ => return Err(Other::Elsewhere),
            }
        }
        Ok(())
    }

    fn position(&self, name: Ptr) -> Option<usize> {
        let same = self.params.iter().position(|param| param.name == name);
        // SAFETY: both are texts that are alive.
        let equal = |param: &Param| unsafe { PyObject_RichCompareBool(param.name, name, Py_EQ) } == 1;
        same.or_else(|| self.params.iter().position(equal))
    }
}

impl Param {
    /// Returns true if no call is without it.
    pub(crate) fn is_required(&self) -> bool {
        self.missing.is_null()
    }

    fn read(param: Ptr) -> Outcome<Param> {
        let is = |name: &CStr| Ok::<bool, Other>(is_true(&attribute_of(param, name)?));
        let missing = match (is(c"has_default")?, is(c"optional")? || is(c"is_made")?) {
            (true, _) => attribute_of(param, c"default")?.release(),
            // SAFETY: it lives as long as the interpreter.
            (false, true) => unsafe { Py_None() },
            (false, false) => std::ptr::null_mut(),
        };
        let mut name = attribute_of(param, c"name")?.release();
        // SAFETY: the name is this function's reference to a text.
        unsafe { pyo3_ffi::PyUnicode_InternInPlace(&raw mut name) };
        let is_tensor = is(c"is_tensor")?;
        let default = if is_tensor || missing.is_null() { None } else { scalar(missing).ok() };
        Ok(Param { is_tensor, is_wide: is(c"is_wide")?, name, missing, default, pattern: Pattern::default() })
    }
}

/// The forward function of the innermost recorded call of this thread.
pub(crate) fn forward(context: Ptr) -> Outcome<Object> {
    // SAFETY: the call sets the pointer back when it ends, and waits for its forward function until then.
    let recorded = unsafe { RECORDED.get().as_ref() }.ok_or(Other::Elsewhere)?;
    let arguments = recorded.arguments.take().ok_or(Other::Elsewhere)?;
    recorded.door.forward(context, recorded.values, arguments)
}

/// The outputs that are there: one, or a tuple.
fn result<'a>(values: &[Ptr], outputs: impl Iterator<Item = &'a usize>) -> Outcome<Object> {
    let mut made = outputs.map(|at| values[*at]).filter(|value| !is_none(*value));
    match (made.next(), made.next()) {
        (Some(one), None) => Ok(Object::share(one)),
        (first, second) => {
            let every: Vec<Ptr> = first.into_iter().chain(second).chain(made).collect();
            tuple(every.into_iter())
        }
    }
}

pub(crate) fn is_none(value: Ptr) -> bool {
    // SAFETY: it lives as long as the interpreter.
    value == unsafe { Py_None() }
}

fn is_true(object: &Object) -> bool {
    // SAFETY: the object is alive.
    unsafe { PyObject_IsTrue(object.get()) == 1 }
}

fn set(object: Ptr, name: Ptr, value: Ptr) -> Outcome<()> {
    // SAFETY: the references are alive.
    match unsafe { PyObject_SetAttr(object, name, value) } {
        0 => Ok(()),
        _ => Err(Other::Raised),
    }
}
