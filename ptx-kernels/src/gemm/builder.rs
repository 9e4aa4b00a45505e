//! The options of a product, and what the host checks before it is launched.

use super::element::{Element, Operand, Output};
use super::params::{self, Epilogue, Matrix, Vector};
use super::plan::{self, Plan};
use super::problem::{Product, size};
use super::search::{self, Setting};
use super::views::{View, Views};
use super::{launch, sm90};
use crate::workspace::{self, Workspace};
use ptx_launch::{AsStream, Bound, Error, ErrorKind, IntoTensor, IntoTensorMut, Result, StreamRef, TensorRef};

/// A function of each element of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// x
    #[default]
    None,
    /// max(x, 0)
    Relu,
    /// x · Φ(x), with the error function: PyTorch's `gelu`.
    Gelu,
    /// The approximation with tanh: PyTorch's `gelu(approximate="tanh")`.
    GeluTanh,
    /// x / (1 + e⁻ˣ)
    Silu,
}

/// The instance and the division of a product that [`Gemm::choose`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// One of the [`algorithms`](super::algorithms).
    pub algorithm: &'static str,
    /// Parts of K.
    pub splits: u32,
    /// Bytes of workspace.
    pub workspace: usize,
}

/// A matrix product with options:
///
/// C = activation(`alpha` · `scale_rows` · `scale_columns` · (A · B) + `beta` · C + biases) + `residual`
///
/// `O` is the element type of C, and `R` its number of dimensions: 2, or 3 with a batch in front. Vectors are the same for each batch. A
/// tensor with strides of zero repeats an element, so that a scale per tensor is a scale per row of stride 0.
///
/// ```
/// use ptx_kernels::gemm::Gemm;
/// use ptx_launch::TensorRef;
/// use ptx_launch::prelude::*;
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let (a, b) = (device.upload(&[2i8; 4 * 8])?, device.upload(&[3i8; 4 * 8])?);
/// let scale = device.upload(&[0.5f32])?;
/// let mut c = device.zeros::<bf16>(4 * 4)?;
/// let b = TensorRef::from(b.tile([4, 8])?).transposed();
/// Gemm::new()
///     .scale_rows(TensorRef::strided(&scale, [4], [0])?)
///     .run(&device, a.tile([4, 8])?, b, c.tile_mut([4, 4])?)?;
/// assert_eq!(c.download()?[0].to_f32(), 24.0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Gemm<'a, O, const R: usize> {
    options: Options<'a, O, R>,
    workspace: Option<&'a mut Workspace>,
}

/// The options, but for the workspace.
#[derive(Debug)]
struct Options<'a, O, const R: usize> {
    alpha: f32,
    beta: f32,
    activation: Activation,
    scale_rows: Option<TensorRef<'a, f32, 1>>,
    scale_columns: Option<TensorRef<'a, f32, 1>>,
    bias_rows: Option<TensorRef<'a, O, 1>>,
    bias_columns: Option<TensorRef<'a, O, 1>>,
    residual: Option<TensorRef<'a, O, R>>,
    tf32: bool,
    deterministic: bool,
    algorithm: Option<(&'a str, u32)>,
    raster: Option<[u32; 2]>,
}

impl<O: Element, const R: usize> Default for Gemm<'_, O, R> {
    fn default() -> Self {
        Gemm::new()
    }
}

impl<'a, O: Element, const R: usize> Gemm<'a, O, R> {
    /// C = A · B.
    pub fn new() -> Self {
        let options = Options {
            alpha: 1.0,
            beta: 0.0,
            activation: Activation::None,
            scale_rows: None,
            scale_columns: None,
            bias_rows: None,
            bias_columns: None,
            residual: None,
            tf32: false,
            deterministic: false,
            algorithm: None,
            raster: None,
        };
        Gemm { options, workspace: None }
    }

    /// Multiplies the product; 1 at first.
    pub fn alpha(mut self, alpha: f32) -> Self {
        self.options.alpha = alpha;
        self
    }

    /// Multiplies the old C, which is added; 0 at first, and then C is not read.
    pub fn beta(mut self, beta: f32) -> Self {
        self.options.beta = beta;
        self
    }

    /// Multiplies row i of the product by element i of `[m]`.
    pub fn scale_rows(mut self, scale: impl IntoTensor<'a, f32, 1>) -> Self {
        self.options.scale_rows = Some(scale.into());
        self
    }

    /// Multiplies column j of the product by element j of `[n]`.
    pub fn scale_columns(mut self, scale: impl IntoTensor<'a, f32, 1>) -> Self {
        self.options.scale_columns = Some(scale.into());
        self
    }

    /// Adds element i of `[m]` to row i.
    pub fn bias_rows(mut self, bias: impl IntoTensor<'a, O, 1>) -> Self {
        self.options.bias_rows = Some(bias.into());
        self
    }

    /// Adds element j of `[n]` to column j.
    pub fn bias_columns(mut self, bias: impl IntoTensor<'a, O, 1>) -> Self {
        self.options.bias_columns = Some(bias.into());
        self
    }

    /// Adds a tensor of C's shape, with any strides, after the activation.
    pub fn residual(mut self, residual: impl IntoTensor<'a, O, R>) -> Self {
        self.options.residual = Some(residual.into());
        self
    }

    /// Applies a function to each element, before the residual is added.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.options.activation = activation;
        self
    }

    /// Cuts operands of `f32` to 11 significant bits, for tensor cores. Operands of other types stay as they are.
    pub fn tf32(mut self, tf32: bool) -> Self {
        self.options.tf32 = tf32;
        self
    }

    /// Takes only kernels whose sums have an order that depends on shape, layout and device alone: the same bits each time.
    pub fn deterministic(mut self, deterministic: bool) -> Self {
        self.options.deterministic = deterministic;
        self
    }

    /// Takes scratch memory from here, and only algorithms that it is large enough for. Without it the stream's
    /// [pool](crate::workspace) is used.
    pub fn workspace(mut self, workspace: &'a mut Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Takes this one of the [`algorithms`](super::algorithms), with K in this many parts, for tuning and tests.
    pub fn algorithm(mut self, name: &'a str, splits: u32) -> Self {
        self.options.algorithm = Some((name, splits));
        self
    }

    /// Takes tiles in bands of `band` along M, and in runs of `run` along N, for tuning and tests.
    #[doc(hidden)]
    pub fn raster(mut self, band: u32, run: u32) -> Self {
        self.options.raster = Some([band.max(1), run.max(1)]);
        self
    }

    /// Submits the product to `stream`.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if shapes do not fit, [`ErrorKind::Unsupported`] for options that a type or an algorithm does not
    /// have, [`ErrorKind::WrongDevice`], those of a launch, and [`ErrorKind::OutOfMemory`] if the stream's workspace has to grow and
    /// cannot.
    pub fn run<'t, T>(
        &mut self,
        stream: impl AsStream,
        a: impl IntoTensor<'t, T, R>,
        b: impl IntoTensor<'t, T, R>,
        c: impl IntoTensorMut<'t, O, R>,
    ) -> Result<()>
    where
        T: Operand,
        O: Output<T>,
    {
        let (options, stream) = (&self.options, stream.as_stream());
        let (a, b, mut c) = (a.into(), b.into(), c.into());
        let views = Views::of::<T, O, R>(&a, &b, (c.shape(), c.strides()))?;
        options.check(&views)?;
        if views.c.extents().contains(&0) {
            return Ok(());
        }
        let addresses = [a.address(), b.address(), c.address()];
        let (_a, _b, _c) = (a.bind_to(stream)?, b.bind_to(stream)?, c.bind_to(stream)?);
        let bound = Bindings::of(options, stream)?;
        let product = Product {
            residual: options.residual_matrix(&bound)?,
            epilogue: options.epilogue(O::KIND, &bound),
            ..options.product::<T>(&views, addresses)
        };
        let product = product.oriented();
        let plan = options.plan(stream, &product, self.workspace.as_deref())?;
        launch::submit(stream, &product, self.workspace.as_deref_mut(), &plan)
    }

    /// The algorithm that [`run`](Gemm::run) takes for these tensors.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if shapes do not fit, [`ErrorKind::Unsupported`] if no algorithm multiplies such operands on the device.
    pub fn choose<'t, T>(
        &self,
        stream: impl AsStream,
        a: impl IntoTensor<'t, T, R>,
        b: impl IntoTensor<'t, T, R>,
        c: impl IntoTensorMut<'t, O, R>,
    ) -> Result<Choice>
    where
        T: Operand,
        O: Output<T>,
    {
        let (options, stream) = (&self.options, stream.as_stream());
        let (a, b, c) = (a.into(), b.into(), c.into());
        let views = Views::of::<T, O, R>(&a, &b, (c.shape(), c.strides()))?;
        options.check(&views)?;
        let product = options.product::<T>(&views, [a.address(), b.address(), c.address()]).oriented();
        options.plan(stream, &product, self.workspace.as_deref()).map(Choice::from)
    }
}

impl From<Plan> for Choice {
    fn from(plan: Plan) -> Choice {
        Choice { algorithm: &plan.instance.name, splits: plan.splits, workspace: plan.bytes }
    }
}

impl<O: Element, const R: usize> Options<'_, O, R> {
    /// Checks shapes, and that the result's type has these options.
    #[inline]
    fn check(&self, Views { a, b, c }: &Views) -> Result<()> {
        let fits = a.rows.extent == c.rows.extent
            && b.columns.extent == c.columns.extent
            && a.columns.extent == b.rows.extent
            && a.batch.extent == c.batch.extent
            && b.batch.extent == c.batch.extent;
        if !fits {
            return Err(misfit(a, b, c));
        }
        let vector = |name: &str, shape: Option<usize>, extent: u32| match shape {
            Some(len) if len != extent as usize => Err(wrong_vector(name, len, extent)),
            _ => Ok(()),
        };
        let (m, n) = (c.rows.extent, c.columns.extent);
        vector("scale_rows", self.scale_rows.map(|v| v.shape()[0]), m)?;
        vector("scale_columns", self.scale_columns.map(|v| v.shape()[0]), n)?;
        vector("bias_rows", self.bias_rows.map(|v| v.shape()[0]), m)?;
        vector("bias_columns", self.bias_columns.map(|v| v.shape()[0]), n)?;
        if let Some(residual) = self.residual {
            let view = View::of(residual.shape(), residual.strides(), size(O::KIND))?;
            if view.extents() != c.extents() {
                return Err(wrong_residual(&view, c));
            }
        }
        if O::KIND == params::I32 && !self.is_plain() { Err(integers_have_no_options()) } else { Ok(()) }
    }

    /// The element type that kernels multiply.
    fn kind<T: Operand>(&self) -> u32 {
        if self.tf32 && T::KIND == params::F32 { params::TF32 } else { T::KIND }
    }

    /// The product of the memory at the addresses of A, B and C, without what the options read.
    #[inline]
    fn product<T: Operand>(&self, views: &Views, addresses: [u64; 3]) -> Product {
        let product = views.product(addresses, self.kind::<T>(), self.deterministic);
        let epilogue = Epilogue { kind: O::KIND, ..Epilogue::default() };
        Product { epilogue, has_options: !self.is_plain(), ..product }
    }

    /// The plan for a product: with the named algorithm, or with the one that takes the least time by the model.
    fn plan(&self, stream: StreamRef<'_>, product: &Product, given: Option<&Workspace>) -> Result<Plan> {
        let setting = Setting { device: stream.properties()?, available: workspace::available(given) };
        let has_scratch = || sm90::is_ready(stream, given);
        let plan = match self.algorithm {
            None => search::choose(product, &setting, has_scratch)?,
            Some((name, splits)) => {
                let plan = plan::named(product, setting.device, setting.available, name, splits)?;
                if plan.instance.family.has_scratch() && !has_scratch() {
                    return Err(no_capture(name));
                }
                plan
            }
        };
        Ok(self.raster.map_or(plan, |raster| plan.with_raster(raster)))
    }

    /// True without options that change the sums.
    #[inline]
    fn is_plain(&self) -> bool {
        let has_vectors = self.scale_rows.is_some()
            || self.scale_columns.is_some()
            || self.bias_rows.is_some()
            || self.bias_columns.is_some()
            || self.residual.is_some();
        self.alpha == 1.0 && self.beta == 0.0 && self.activation == Activation::None && !has_vectors
    }

    fn residual_matrix(&self, bound: &Bindings<'_>) -> Result<Matrix> {
        let (Some(residual), Some(memory)) = (self.residual, &bound.residual) else { return Ok(Matrix::default()) };
        Ok(View::of(residual.shape(), residual.strides(), size(O::KIND))?.matrix(memory.address()))
    }

    fn epilogue(&self, kind: u32, bound: &Bindings<'_>) -> Epilogue {
        let parts = [
            (params::SCALE_ROWS, self.scale_rows.is_some()),
            (params::SCALE_COLUMNS, self.scale_columns.is_some()),
            (params::BIAS_ROWS, self.bias_rows.is_some()),
            (params::BIAS_COLUMNS, self.bias_columns.is_some()),
            (params::RESIDUAL, self.residual.is_some()),
            (params::ACCUMULATE, self.beta != 0.0),
            (params::RELU, self.activation == Activation::Relu),
            (params::GELU, self.activation == Activation::Gelu),
            (params::GELU_TANH, self.activation == Activation::GeluTanh),
            (params::SILU, self.activation == Activation::Silu),
        ];
        Epilogue {
            scale_rows: vector(&self.scale_rows, &bound.scale_rows),
            scale_columns: vector(&self.scale_columns, &bound.scale_columns),
            bias_rows: vector(&self.bias_rows, &bound.bias_rows),
            bias_columns: vector(&self.bias_columns, &bound.bias_columns),
            alpha: self.alpha,
            beta: self.beta,
            flags: params::all_of(&parts),
            kind,
        }
    }
}

/// The memory of the options, ready for the stream until the work is submitted.
struct Bindings<'s> {
    scale_rows: Option<Bound<'s>>,
    scale_columns: Option<Bound<'s>>,
    bias_rows: Option<Bound<'s>>,
    bias_columns: Option<Bound<'s>>,
    residual: Option<Bound<'s>>,
}

impl<'s> Bindings<'s> {
    fn of<O, const R: usize>(options: &'s Options<'_, O, R>, stream: StreamRef<'s>) -> Result<Bindings<'s>> {
        Ok(Bindings {
            scale_rows: bind(&options.scale_rows, stream)?,
            scale_columns: bind(&options.scale_columns, stream)?,
            bias_rows: bind(&options.bias_rows, stream)?,
            bias_columns: bind(&options.bias_columns, stream)?,
            residual: bind(&options.residual, stream)?,
        })
    }
}

fn bind<'s, T, const R: usize>(
    tensor: &'s Option<TensorRef<'_, T, R>>,
    stream: StreamRef<'s>,
) -> Result<Option<Bound<'s>>> {
    tensor.as_ref().map(|tensor| tensor.bind_to(stream)).transpose()
}

fn vector<T>(tensor: &Option<TensorRef<'_, T, 1>>, bound: &Option<Bound<'_>>) -> Vector {
    match (tensor, bound) {
        (Some(tensor), Some(bound)) => {
            Vector { at: bound.address(), step: (tensor.strides()[0] as u64).wrapping_mul(size_of::<T>() as u64) }
        }
        _ => Vector::default(),
    }
}

#[cold]
fn no_capture(name: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("`{name}` is captured before its memory is there"))
        .possible("the same product once before the capture, or another algorithm")
}

#[cold]
fn misfit(a: &View, b: &View, c: &View) -> Error {
    let [a, b, c] = [a, b, c].map(View::extents);
    Error::new(
        ErrorKind::Condition,
        format!("A, B and C with (batch, rows, columns) {a:?}, {b:?} and {c:?} are multiplied"),
    )
    .possible("A is [m, k], B is [k, n], C is [m, n], with equal batches")
    .help("`TensorRef::transposed` exchanges rows and columns without copying")
}

#[cold]
fn wrong_vector(name: &str, len: usize, extent: u32) -> Error {
    Error::new(ErrorKind::Condition, format!("`{name}` has {len} elements"))
        .possible(format!("{extent}, one for each row or column of C"))
        .help("a stride of zero repeats one element: `TensorRef::strided(&scale, [n], [0])`")
}

#[cold]
fn wrong_residual(residual: &View, c: &View) -> Error {
    let [residual, c] = [residual, c].map(View::extents);
    Error::new(ErrorKind::Condition, format!("a residual of {residual:?} is added to C of {c:?}"))
        .possible("a residual of C's shape, with any strides")
}

#[cold]
fn integers_have_no_options() -> Error {
    Error::new(ErrorKind::Unsupported, "a product of `i8` with a result of `i32` has options that compute")
        .possible("alpha = 1, beta = 0, no scales, biases, residual or activation")
        .help("take f32, f16 or bf16 for C")
}
