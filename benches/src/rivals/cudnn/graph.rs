//! The computation as the library sees it: operations on tensors, most of which exist only between two operations.
//! Knows what an operation is made of, but not what for.

use super::descriptor::{Descriptor, Draft};
use cudarc::cudnn::sys;
use ptx_launch::Result;
use std::rc::Rc;

use sys::cudnnBackendAttributeName_t as Name;
use sys::cudnnBackendDescriptorType_t as Kind;
pub use sys::cudnnDataType_t as Type;
pub use sys::cudnnPointwiseMode_t as Pointwise;
pub use sys::cudnnReduceTensorOp_t as Reduction;

/// Type of all computations except comparisons.
const MATH: Type = Type::CUDNN_DATA_FLOAT;

/// Extents and strides, in elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Extents.
    pub extents: [i64; 4],
    /// From one element to the next of each dimension.
    pub strides: [i64; 4],
}

impl Shape {
    /// One element behind the other.
    pub fn packed(extents: [i64; 4]) -> Shape {
        let [_, b, c, d] = extents;
        Shape { extents, strides: [b * c * d, c * d, d, 1] }
    }

    /// The last two dimensions exchanged.
    pub fn transposed(self) -> Shape {
        let swapped = |[a, b, c, d]: [i64; 4]| [a, b, d, c];
        Shape { extents: swapped(self.extents), strides: swapped(self.strides) }
    }
}

/// An argument that a launch passes for a tensor.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// It is at this one of the launch's addresses.
    Memory(usize),
    /// It is this number.
    Number(f32),
}

/// The tensors that a launch must know something of, by the names that the graph gave them.
pub type Arguments = Rc<[(i64, Argument)]>;

/// A tensor of a graph.
#[derive(Clone)]
pub struct Tensor {
    descriptor: Descriptor,
    shape: Shape,
}

/// Operations on tensors.
#[derive(Default)]
pub struct Graph {
    operations: Vec<Descriptor>,
    arguments: Vec<(i64, Argument)>,
    tensors: i64,
}

impl Graph {
    fn tensor(&mut self, ty: Type, shape: Shape, argument: Option<Argument>) -> Result<Tensor> {
        self.tensors += 1;
        let by_value = matches!(argument, Some(Argument::Number(_)));
        let descriptor = Draft::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[ty])?
            .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &shape.extents)?
            .set(Name::CUDNN_ATTR_TENSOR_STRIDES, &shape.strides)?
            .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[self.tensors])?
            .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16i64])?
            .set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, &[argument.is_none()])?
            .set(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE, &[by_value])?
            .finish()?;
        self.arguments.extend(argument.map(|argument| (self.tensors, argument)));
        Ok(Tensor { descriptor, shape })
    }

    /// A tensor in memory, at this one of the launch's addresses.
    pub fn memory(&mut self, ty: Type, shape: Shape, place: usize) -> Result<Tensor> {
        self.tensor(ty, shape, Some(Argument::Memory(place)))
    }

    /// A number, for all elements.
    pub fn number(&mut self, number: f32) -> Result<Tensor> {
        self.tensor(MATH, Shape::packed([1; 4]), Some(Argument::Number(number)))
    }

    /// A tensor between operations.
    pub fn between(&mut self, ty: Type, shape: Shape) -> Result<Tensor> {
        self.tensor(ty, shape, None)
    }

    /// Adds an operation, begun by its kind and what describes it, on these tensors.
    pub fn operation(&mut self, begun: Draft, tensors: &[(Name, &Tensor)]) -> Result<()> {
        let link = |draft: Draft, (name, tensor): &(Name, &Tensor)| draft.link(*name, &[&tensor.descriptor]);
        self.operations.push(tensors.iter().try_fold(begun, link)?.finish()?);
        Ok(())
    }

    /// `c` = `a` · `b`.
    pub fn matmul(&mut self, a: &Tensor, b: &Tensor, c: &Tensor) -> Result<()> {
        use Name as N;
        let how = Draft::new(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR)?.set(N::CUDNN_ATTR_MATMUL_COMP_TYPE, &[MATH])?;
        let begun = Draft::new(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)?
            .link(N::CUDNN_ATTR_OPERATION_MATMUL_DESC, &[&how.finish()?])?;
        let tensors = [
            (N::CUDNN_ATTR_OPERATION_MATMUL_ADESC, a),
            (N::CUDNN_ATTR_OPERATION_MATMUL_BDESC, b),
            (N::CUDNN_ATTR_OPERATION_MATMUL_CDESC, c),
        ];
        self.operation(begun, &tensors)
    }

    /// All elements of a row to one.
    pub fn reduce(&mut self, by: Reduction, x: &Tensor) -> Result<Tensor> {
        use Name as N;
        let [a, b, c, _] = x.shape.extents;
        let y = self.between(MATH, Shape::packed([a, b, c, 1]))?;
        let how = Draft::new(Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR)?
            .set(N::CUDNN_ATTR_REDUCTION_OPERATOR, &[by])?
            .set(N::CUDNN_ATTR_REDUCTION_COMP_TYPE, &[MATH])?;
        let begun = Draft::new(Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)?
            .link(N::CUDNN_ATTR_OPERATION_REDUCTION_DESC, &[&how.finish()?])?;
        let tensors = [(N::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x), (N::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, &y)];
        self.operation(begun, &tensors)?;
        Ok(y)
    }

    /// Element by element, of one to three tensors.
    pub fn pointwise(&mut self, mode: Pointwise, x: &[&Tensor], ty: Type) -> Result<Tensor> {
        self.elements(mode, &[], x, ty)
    }

    /// Each element's place along a dimension.
    pub fn index(&mut self, like: &Tensor, axis: i64) -> Result<Tensor> {
        self.elements(Pointwise::CUDNN_POINTWISE_GEN_INDEX, &[axis], &[like], Type::CUDNN_DATA_INT32)
    }

    fn elements(&mut self, mode: Pointwise, axis: &[i64], x: &[&Tensor], ty: Type) -> Result<Tensor> {
        use Name as N;
        const INPUTS: [N; 3] = [
            N::CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
            N::CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
            N::CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
        ];
        let math = if ty == Type::CUDNN_DATA_BOOLEAN { ty } else { MATH };
        let mut how = Draft::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?
            .set(N::CUDNN_ATTR_POINTWISE_MODE, &[mode])?
            .set(N::CUDNN_ATTR_POINTWISE_MATH_PREC, &[math])?;
        if !axis.is_empty() {
            how = how.set(N::CUDNN_ATTR_POINTWISE_AXIS, axis)?;
        }
        let y = self.between(ty, x[0].shape)?;
        let mut tensors = vec![(N::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &y)];
        tensors.extend(INPUTS.into_iter().zip(x.iter().copied()));
        let begun = Draft::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?
            .link(N::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[&how.finish()?])?;
        self.operation(begun, &tensors)?;
        Ok(y)
    }

    /// The descriptor of all operations, and what a launch must know.
    pub fn finish(self, handle: sys::cudnnHandle_t) -> Result<(Descriptor, Arguments)> {
        let operations: Vec<_> = self.operations.iter().collect();
        let graph = Draft::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &[handle])?
            .link(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operations)?
            .finish()?;
        Ok((graph, self.arguments.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn strides_go_with_their_extents() {
        let shape = Shape::packed([2, 3, 5, 7]);
        assert_eq!(shape.strides, [105, 35, 7, 1]);
        assert_eq!(shape.transposed(), Shape { extents: [2, 3, 7, 5], strides: [105, 35, 1, 7] });
    }
}
