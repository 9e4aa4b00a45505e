//! A transposition of 256 × 384 numbers in strips of 32 rows: each line is plausible, and three of them are slow.

#[ptx_kernel(arch = "sm_90", block = (32, 4), grid = rows / 32, unsafe(requires(rows % 32 == 0, x.len() >= rows * 384, out.len() >= rows * 384)))]
pub fn transpose(x: &[f32], out: &mut [f32], rows: u32) {
    #[shared]
    let strip: [[f32; 384]; 32];

    let row: u32 = ctaid.x * 32 + tid.x;
    let mut column: u32 = tid.y;
    while column < 384 {
        let (from, to) = (x.at(row * 384 + column), strip.at(tid.x, column));
        let v: f32;
        ptx! {
            ld.global.f32   v, [from];
            st.shared.f32   [to], v;
        }
        column += 4;
    }
    block::sync();
    let mut column: u32 = tid.y;
    while column < 384 {
        let (from, to) = (strip.at(tid.x, column), out.at(column * rows + row));
        let v: f32;
        ptx! {
            ld.shared.f32   v, [from];
            st.global.f32   [to], v;
        }
        column += 4;
    }
}
