//! Attention forward in bf16 as graphs: step by step, as every version from 9 on fuses it, and as the one operation that newer
//! ones have besides.

use super::descriptor::Draft;
use super::graph::{Graph, Pointwise, Reduction, Shape, Tensor, Type};
use cudarc::cudnn::sys;
use ptx_launch::Result;

const NUMBER: Type = Type::CUDNN_DATA_BFLOAT16;
const SUM: Type = Type::CUDNN_DATA_FLOAT;

/// An attention problem: sequences of one length, token after token, each with all its heads.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// Number of sequences.
    pub sequences: usize,
    /// Heads of Q, and of K and V.
    pub heads: [usize; 2],
    /// Tokens of a sequence of Q, and of K and V.
    pub tokens: [usize; 2],
    /// A head's width.
    pub width: usize,
    /// True if a token sees none behind it.
    pub causal: bool,
}

/// Places of Q, K, V and the output among the addresses of a launch.
const PLACES: [usize; 4] = [0, 1, 2, 3];

impl Attention {
    /// Every way to say it; a launch needs the addresses of Q, K, V and the output.
    pub fn graphs(&self) -> Vec<Result<Graph>> {
        let mut graphs = vec![self.steps()];
        if !self.causal {
            graphs.push(self.whole());
        }
        graphs
    }

    /// Q and the output (0), or K and V (1): sequence, head, token, element.
    fn shape(&self, operand: usize) -> Shape {
        let (heads, tokens) = (self.heads[operand] as i64, self.tokens[operand] as i64);
        let (sequences, width) = (self.sequences as i64, self.width as i64);
        Shape { extents: [sequences, heads, tokens, width], strides: [tokens * heads * width, width, heads * width, 1] }
    }

    fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    /// Two products with a softmax between them. The library recognizes them by what training needs: the logarithm of each row's
    /// sum is among them, though nobody keeps it.
    fn steps(&self) -> Result<Graph> {
        use Pointwise as P;
        let mut graph = Graph::default();
        let [q, k, v, out] = PLACES;
        let q = graph.memory(NUMBER, self.shape(0), q)?;
        let k = graph.memory(NUMBER, self.shape(1).transposed(), k)?;
        let v = graph.memory(NUMBER, self.shape(1), v)?;
        let out = graph.memory(NUMBER, self.shape(0), out)?;

        let extents = [self.sequences, self.heads[0], self.tokens[0], self.tokens[1]];
        let scores = graph.between(SUM, Shape::packed(extents.map(|extent| extent as i64)))?;
        graph.matmul(&q, &k, &scores)?;
        let scale = graph.number(self.scale())?;
        let mut scores = graph.pointwise(P::CUDNN_POINTWISE_MUL, &[&scores, &scale], SUM)?;
        if self.causal {
            scores = mask(&mut graph, &scores)?;
        }

        let most = graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_MAX, &scores)?;
        let below = graph.pointwise(P::CUDNN_POINTWISE_SUB, &[&scores, &most], SUM)?;
        let powers = graph.pointwise(P::CUDNN_POINTWISE_EXP, &[&below], SUM)?;
        let sum = graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_ADD, &powers)?;
        let log = graph.pointwise(P::CUDNN_POINTWISE_LOG, &[&sum], SUM)?;
        graph.pointwise(P::CUDNN_POINTWISE_ADD, &[&most, &log], SUM)?;
        let shares = graph.pointwise(P::CUDNN_POINTWISE_DIV, &[&powers, &sum], NUMBER)?;
        graph.matmul(&shares, &v, &out)?;
        Ok(graph)
    }

    /// One operation.
    fn whole(&self) -> Result<Graph> {
        use sys::cudnnBackendAttributeName_t as N;
        let mut graph = Graph::default();
        let [q, k, v, out] = PLACES;
        let tensors = [
            (N::CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, graph.memory(NUMBER, self.shape(0), q)?),
            (N::CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, graph.memory(NUMBER, self.shape(1), k)?),
            (N::CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, graph.memory(NUMBER, self.shape(1), v)?),
            (N::CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, graph.memory(NUMBER, self.shape(0), out)?),
            (N::CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, graph.number(self.scale())?),
        ];
        let kind = sys::cudnnBackendDescriptorType_t::CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR;
        graph.operation(Draft::new(kind)?, &tensors.each_ref().map(|(name, tensor)| (*name, tensor)))?;
        Ok(graph)
    }
}

/// The scores of keys behind a token become less than any other.
fn mask(graph: &mut Graph, scores: &Tensor) -> Result<Tensor> {
    let (row, column) = (graph.index(scores, 2)?, graph.index(scores, 3)?);
    let seen = graph.pointwise(Pointwise::CUDNN_POINTWISE_CMP_GE, &[&row, &column], Type::CUDNN_DATA_BOOLEAN)?;
    let least = graph.number(f32::NEG_INFINITY)?;
    graph.pointwise(Pointwise::CUDNN_POINTWISE_BINARY_SELECT, &[scores, &least, &seen], SUM)
}
