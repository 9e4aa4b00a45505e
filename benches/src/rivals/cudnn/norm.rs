//! RMSNorm and LayerNorm of rows as graphs of one operation.

use super::descriptor::Draft;
use super::graph::{Graph, Shape, Type};
use cudarc::cudnn::sys;
use ptx_launch::Result;

use sys::cudnnBackendNormMode_t as Mode;

/// A norm over consecutive rows.
#[derive(Clone, Copy, Debug)]
pub struct Norm {
    /// Number of rows.
    pub rows: u32,
    /// Elements of a row.
    pub columns: u32,
    /// True if elements are bf16; else they are f32.
    pub bf16: bool,
    /// True if the mean is subtracted and a bias added (LayerNorm); else neither (RMSNorm).
    pub layer: bool,
    /// Lower bound of the mean of squares.
    pub epsilon: f32,
}

impl Norm {
    /// The one way to say it; a launch needs the addresses of the input, the weights, the bias if there is one, and the output.
    pub fn graphs(&self) -> Vec<Result<Graph>> {
        vec![self.graph()]
    }

    fn graph(&self) -> Result<Graph> {
        use sys::cudnnBackendAttributeName_t as N;
        let ty = if self.bf16 { Type::CUDNN_DATA_BFLOAT16 } else { Type::CUDNN_DATA_FLOAT };
        let columns = i64::from(self.columns);
        // Everything but the first dimension is normed.
        let rows = |rows: u32| Shape::packed([i64::from(rows), columns, 1, 1]);
        let mut graph = Graph::default();
        let mut tensors = vec![
            (N::CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, graph.memory(ty, rows(self.rows), 0)?),
            (N::CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, graph.memory(ty, rows(1), 1)?),
            (N::CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, graph.number(self.epsilon)?),
        ];
        if self.layer {
            tensors.push((N::CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, graph.memory(ty, rows(1), 2)?));
        }
        let out = graph.memory(ty, rows(self.rows), 2 + usize::from(self.layer))?;
        tensors.push((N::CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, out));

        let mode = if self.layer { Mode::CUDNN_LAYER_NORM } else { Mode::CUDNN_RMS_NORM };
        let phase = sys::cudnnBackendNormFwdPhase_t::CUDNN_NORM_FWD_INFERENCE;
        let begun = Draft::new(sys::cudnnBackendDescriptorType_t::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR)?
            .set(N::CUDNN_ATTR_OPERATION_NORM_FWD_MODE, &[mode])?
            .set(N::CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, &[phase])?;
        let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
        graph.operation(begun, &tensors)?;
        Ok(graph)
    }
}
