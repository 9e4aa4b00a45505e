//! The library's descriptors: what it is told and what it answers is a list of attributes of one. Knows no operation.

use cudarc::cudnn::sys;
use ptx_launch::{Error, Result};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

use sys::cudnnBackendAttributeName_t as Name;
use sys::cudnnBackendAttributeType_t as Type;
use sys::cudnnBackendDescriptorType_t as Kind;

/// A value that an attribute can have.
pub trait Value: Copy {
    /// The library's name for its type.
    const TYPE: Type;
}

macro_rules! values {
    ($($of:ty: $name:ident,)*) => { $(impl Value for $of { const TYPE: Type = Type::$name; })* };
}
values! {
    bool: CUDNN_TYPE_BOOLEAN,
    i64: CUDNN_TYPE_INT64,
    f32: CUDNN_TYPE_FLOAT,
    *const c_void: CUDNN_TYPE_VOID_PTR,
    sys::cudnnHandle_t: CUDNN_TYPE_HANDLE,
    sys::cudnnDataType_t: CUDNN_TYPE_DATA_TYPE,
    sys::cudnnPointwiseMode_t: CUDNN_TYPE_POINTWISE_MODE,
    sys::cudnnReduceTensorOp_t: CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
    sys::cudnnBackendHeurMode_t: CUDNN_TYPE_HEUR_MODE,
    sys::cudnnBackendNormMode_t: CUDNN_TYPE_NORM_MODE,
    sys::cudnnBackendNormFwdPhase_t: CUDNN_TYPE_NORM_FWD_PHASE,
}

/// The library's own.
struct Raw(sys::cudnnBackendDescriptor_t);

/// A descriptor that is not complete.
pub struct Draft {
    raw: Raw,
    kind: Kind,
    /// Those it refers to.
    parts: Vec<Descriptor>,
}

/// A complete descriptor. It keeps those it refers to.
#[derive(Clone)]
pub struct Descriptor(Rc<Draft>);

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: made by `Draft::new`, dropped once. A failure leaves nothing to do.
        let _ = unsafe { sys::cudnnBackendDestroyDescriptor(self.0) };
    }
}

impl Draft {
    /// Begins a descriptor of this kind.
    pub fn new(kind: Kind) -> Result<Draft> {
        let mut raw = null_mut();
        // SAFETY: the library writes the address.
        let status = unsafe { sys::cudnnBackendCreateDescriptor(kind, &raw mut raw) };
        checked(status, || format!("{kind:?}"))?;
        Ok(Draft { raw: Raw(raw), kind, parts: Vec::new() })
    }

    /// Sets an attribute.
    pub fn set<T: Value>(self, name: Name, values: &[T]) -> Result<Draft> {
        self.write(name, T::TYPE, values.len(), values.as_ptr().cast())?;
        Ok(self)
    }

    /// Sets an attribute to other descriptors.
    pub fn link(mut self, name: Name, parts: &[&Descriptor]) -> Result<Draft> {
        let links: Vec<_> = parts.iter().map(|part| part.0.raw.0).collect();
        self.write(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, links.len(), links.as_ptr().cast())?;
        self.parts.extend(parts.iter().map(|part| (*part).clone()));
        Ok(self)
    }

    fn write(&self, name: Name, ty: Type, count: usize, values: *const c_void) -> Result<()> {
        // SAFETY: there are `count` values of this type there, which the library copies; descriptors among them are `parts`.
        let status = unsafe { sys::cudnnBackendSetAttribute(self.raw.0, name, ty, count as i64, values) };
        checked(status, || format!("{name:?} of {:?}", self.kind))
    }

    /// Completes it.
    pub fn finish(self) -> Result<Descriptor> {
        // SAFETY: it is alive.
        checked(unsafe { sys::cudnnBackendFinalize(self.raw.0) }, || format!("{:?}", self.kind))?;
        Ok(Descriptor(Rc::new(self)))
    }
}

impl Descriptor {
    /// Reads an attribute.
    pub fn get<T: Value + Default>(&self, name: Name) -> Result<T> {
        let mut value = T::default();
        self.read(name, T::TYPE, 1, (&raw mut value).cast())?;
        Ok(value)
    }

    /// The descriptors that an attribute lists.
    pub fn list(&self, name: Name, kind: Kind) -> Result<Vec<Descriptor>> {
        let ty = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        let count = self.read(name, ty, 0, null_mut())?;
        // The library writes into descriptors that it is given.
        let given: Vec<Draft> = (0..count).map(|_| Draft::new(kind)).collect::<Result<_>>()?;
        let mut links: Vec<_> = given.iter().map(|draft| draft.raw.0).collect();
        let found = self.read(name, ty, links.len(), links.as_mut_ptr().cast())?;
        let complete = |draft| Descriptor(Rc::new(Draft { parts: vec![self.clone()], ..draft }));
        Ok(given.into_iter().take(found).map(complete).collect())
    }

    /// Reads at most `most` values, and returns how many there are.
    fn read(&self, name: Name, ty: Type, most: usize, to: *mut c_void) -> Result<usize> {
        let mut count = 0;
        // SAFETY: there is place for `most` values of this type.
        let status = unsafe { sys::cudnnBackendGetAttribute(self.0.raw.0, name, ty, most as i64, &raw mut count, to) };
        checked(status, || format!("{name:?} of {:?}", self.0.kind))?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// Runs a plan.
    pub fn execute(&self, handle: sys::cudnnHandle_t, pack: &Descriptor) -> Result<()> {
        // SAFETY: all three are alive, and the pack has the addresses of the plan's tensors.
        let status = unsafe { sys::cudnnBackendExecute(handle, self.0.raw.0, pack.0.raw.0) };
        checked(status, || "a plan fails".to_owned())
    }
}

/// Success, or what was asked for, the status, and the library's message.
pub fn checked(status: sys::cudnnStatus_t, what: impl FnOnce() -> String) -> Result<()> {
    let mut words: [c_char; 1024] = [0; 1024];
    status.result().map_err(|error| {
        // SAFETY: the library writes so many bytes at most, the last of them 0.
        let why = unsafe {
            sys::cudnnGetLastErrorString(words.as_mut_ptr(), words.len());
            CStr::from_ptr(words.as_ptr())
        };
        let why: Vec<_> = why.to_string_lossy().split_whitespace().map(str::to_owned).collect();
        Error::other(format!("cuDNN: {}: {:?} ({})", what(), error.0, why.join(" ")))
    })
}
