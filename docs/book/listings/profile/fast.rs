//! The same transposition in tiles of 32 × 32.

#[ptx_kernel(arch = "sm_90", block = (32, 4), grid = (12, rows / 32), unsafe(requires(rows % 32 == 0, x.len() >= rows * 384, out.len() >= rows * 384)))]
pub fn transpose(x: &[f32], out: &mut [f32], rows: u32) {
    #[shared]
    let tile: [[f32; 33]; 32];

    let (row, column): (u32, u32) = (ctaid.y * 32, ctaid.x * 32);
    let mut line: u32 = tid.y;
    while line < 32 {
        let (from, to) = (x.at((row + line) * 384 + column + tid.x), tile.at(line, tid.x));
        let v: f32;
        ptx! {
            ld.global.f32   v, [from];
            st.shared.f32   [to], v;
        }
        line += 4;
    }
    block::sync();
    let mut line: u32 = tid.y;
    while line < 32 {
        let (from, to) = (tile.at(tid.x, line), out.at((column + line) * rows + row + tid.x));
        let v: f32;
        ptx! {
            ld.shared.f32   v, [from];
            st.global.f32   [to], v;
        }
        line += 4;
    }
}
