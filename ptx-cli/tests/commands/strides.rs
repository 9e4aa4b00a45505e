//! Kernels from text whose bounds are proved by strides and by cases, and mutants of them, none of which is proved.

use super::is_thorough;
use ptx_jit::Source;

/// Extents, offsets and conditions: the first one is proved, and the change of a part in each of the others makes an access outside of the buffer.
struct Kernel {
    /// To prove it takes seconds.
    is_slow: bool,
    options: &'static str,
    functions: &'static str,
    body: &'static str,
    /// The text that a mutant lacks, and the text in its place.
    mutants: &'static [(&'static str, &'static str)],
}

const KERNELS: [Kernel; 8] = [
    // Rows of heads of sequences, with strides from the launch.
    Kernel {
        is_slow: true,
        options: "grid = p.grid(), requires(p.is_counted(), p.covers(4 * x.len()))",
        functions: "
            fn is_counted(&self) -> bool { self.heads > 0 && self.heads < 65536 && self.batch < 65536 && self.tokens < 1 << 29 }
            fn covers(&self, bytes: u64) -> bool {
                self.strides.iter().all(|stride| *stride % 4 == 0) && (self.batch == 0 || self.tokens == 0 || bytes >= self.last() + 4 * 32) }
            fn last(&self) -> u64 {
                u64::from(self.batch - 1) * self.strides[0] + u64::from(self.tokens - 1) * self.strides[1] + u64::from(self.heads - 1) * self.strides[2] }
            fn grid(&self) -> (u32, u32, u32) { (self.tokens.div_ceil(64), self.heads, self.batch) }",
        body: "
            for i in 0..4 {
                let row: u32 = ctaid.x * 64 + i * 16;
                let at: u64 = x + p.strides[0] * ctaid.z as u64 + p.strides[1] * row as u64 + p.strides[2] * ctaid.y as u64 + wide(tid.x) * 4;
                let inside: pred = row < p.tokens;
                ptx! { @inside st.global.f32 [at], 0.0; }
            }",
        mutants: &[
            ("row < p.tokens", "row <= p.tokens"),
            ("p.strides[2] * ctaid.y", "p.strides[2] * nctaid.y"),
            ("u64::from(self.batch - 1) * self.strides[0]", "u64::from(self.batch - 1) * self.strides[1]"),
            ("u64::from(self.heads - 1) * self.strides[2]", "u64::from(self.heads - 1)"),
            ("4 * 32", "4 * 31"),
            ("self.batch == 0 ||", "self.batch == 1 ||"),
        ],
    },
    // Whole tiles of sequences, which may be packed: two formulas.
    Kernel {
        is_slow: true,
        options: "grid = p.grid(), requires(p.is_counted(), x.len() >= p.rows())",
        functions: "
            fn is_counted(&self) -> bool {
                self.variable <= 1 && self.heads > 0 && self.heads < 65536 && self.batch < 65536 && self.tokens < 1 << 29 }
            fn rows(&self) -> u64 {
                let (tokens, batch) = (u64::from(self.tokens), u64::from(self.batch));
                let tiles = if self.variable == 1 { tokens / 64 + batch } else { tokens.div_ceil(64) * batch };
                64 * tiles * u64::from(self.heads) }
            fn grid(&self) -> (u32, u32, u32) { ((self.tokens / 64).max(1), self.heads, self.batch) }",
        body: "
            let (mut rows, mut slot, mut first): (u32, u32, u32) = ((p.tokens + 63) / 64 * 64, ctaid.z * p.heads + ctaid.y, 0);
            if p.variable != 0 {
                rows = (p.tokens + p.batch * 64) / 64 * 64;
                slot = ctaid.y;
                first = ctaid.z * 64;
            }
            let own: u64 = wide(slot) * rows + (first + ctaid.x * 64 + tid.x) as u64;
            let at: u64 = x + own * 4;
            if p.tokens > 0 {
                ptx! { st.global.f32 [at], 0.0; st.global.f32 [at + 128], 0.0; }
            }",
        mutants: &[
            ("[at + 128]", "[at + 132]"),
            ("ctaid.z * p.heads + ctaid.y", "ctaid.z * p.heads + ctaid.y + 1"),
            ("first = ctaid.z * 64", "first = (ctaid.z + 1) * 64"),
            ("tokens.div_ceil(64) * batch", "tokens / 64 * batch"),
            ("self.variable == 1", "self.variable == 0"),
            ("self.variable <= 1 &&", ""),
            ("self.variable <= 1 &&", "self.variable <= 2 &&"),
            ("tokens / 64 + batch", "tokens / 64 + batch - 1"),
        ],
    },
    // The blocks of the heads behind the first ones: a quotient below a difference.
    Kernel {
        is_slow: false,
        options: "grid = p.tokens.div_ceil(64) * (p.heads * p.batch - p.variable), requires(p.is_counted(), x.len() >= p.batch)",
        functions: "
            fn is_counted(&self) -> bool {
                self.variable <= self.heads * self.batch && self.heads > 0 && self.heads < 65536 && self.batch < 65536 && self.tokens < 1 << 29 }",
        body: "
            let slot: u32 = p.variable + ctaid.x / ((p.tokens + 63) / 64);
            let at = x.at(slot / p.heads);
            if tid.x == 0 {
                ptx! { red.global.add.f32 [at], 0.0; }
            }",
        mutants: &[
            ("(p.heads * p.batch - p.variable)", "(p.heads * p.batch - p.variable + 1)"),
            ("(p.heads * p.batch - p.variable)", "(p.heads * p.batch)"),
            ("slot / p.heads", "(slot + 1) / p.heads"),
            ("(p.tokens + 63) / 64", "(p.tokens + 62) / 64"),
            ("x.len() >= p.batch", "x.len() + 1 >= p.batch"),
        ],
    },
    // A tensor that a call may lack: its address, or zero.
    Kernel {
        is_slow: true,
        options: "grid = p.grid(), requires(p.is_counted(), p.covers(4 * x.len()))",
        functions: "
            fn is_counted(&self) -> bool { self.heads > 0 && self.heads < 65536 && self.batch < 65536 && self.tokens < 1 << 29 }
            fn covers(&self, bytes: u64) -> bool {
                self.strides.iter().all(|stride| *stride % 4 == 0)
                    && (self.variable == 0 || self.batch == 0 || self.tokens == 0 || bytes >= self.last() + 4 * 32) }
            fn last(&self) -> u64 {
                u64::from(self.batch - 1) * self.strides[0] + u64::from(self.tokens - 1) * self.strides[1] + u64::from(self.heads - 1) * self.strides[2] }
            fn grid(&self) -> (u32, u32, u32) { (self.tokens.div_ceil(64), self.heads, self.batch) }",
        body: "
            let mut tensor: u64 = x;
            tensor = (p.variable != 0).select(tensor, 0);
            let own: u64 = tensor + p.strides[0] * ctaid.z as u64 + p.strides[2] * ctaid.y as u64;
            let first: u64 = (tensor != 0).select(own, 0);
            let mut row: u32 = ctaid.x * 64;
            while row < ctaid.x * 64 + 64 {
                let at: u64 = first + p.strides[1] * row as u64 + wide(tid.x) * 4;
                let inside: pred = (row < p.tokens) & (first != 0);
                if inside {
                    ptx! { st.global.f32 [at], 0.0; }
                }
                row += 16;
            }",
        mutants: &[
            ("(row < p.tokens) & (first != 0)", "(row < p.tokens)"),
            ("self.variable == 0 ||", "self.variable == 1 ||"),
            ("(p.variable != 0).select(tensor, 0)", "(p.variable != 1).select(tensor, 0)"),
            ("(tensor != 0).select(own, 0)", "(tensor != 0).select(own + 4, 0)"),
            ("(row < p.tokens)", "(row <= p.tokens)"),
            ("4 * 32", "4 * 31"),
        ],
    },
    // Places in pages, whose numbers memory has, or in one row.
    Kernel {
        is_slow: false,
        options: "grid = p.grid(), requires(p.is_counted(), x.len() > 0, 4 * x.len() >= p.last() + 4)",
        functions: "
            fn is_counted(&self) -> bool {
                self.strides.iter().all(|stride| *stride % 4 == 0) && self.heads > 0 && self.tokens > 0 && self.batch < 1 << 30
                    && if self.variable == 0 { self.batch <= self.tokens } else { u64::from(self.batch) <= u64::from(self.variable) * u64::from(self.tokens) } }
            fn last(&self) -> u64 { u64::from(self.heads - 1) * self.strides[0] + u64::from(self.tokens - 1) * self.strides[1] }
            fn grid(&self) -> u32 { self.batch.div_ceil(32) }",
        body: "
            let entry: u32;
            ptx! { ld.global.u32 entry, [x]; }
            let token: u32 = entry - p.heads + (ctaid.x * 32 + tid.x);
            if token < p.batch {
                let mut slot: u32 = token;
                if p.variable != 0 {
                    let number: u32 = token / p.tokens;
                    slot = token - number * p.tokens;
                }
                let page: u32 = entry.min(p.heads - 1);
                let at: u64 = x + page as u64 * p.strides[0] + slot as u64 * p.strides[1];
                ptx! { st.global.f32 [at], 0.0; }
            }",
        mutants: &[
            ("self.batch <= self.tokens", "self.batch <= self.tokens + 1"),
            ("entry.min(p.heads - 1)", "entry.min(p.heads)"),
            ("token - number * p.tokens", "token - number"),
            ("if p.variable != 0 {", "if p.variable > 2 {"),
            ("token < p.batch", "token <= p.batch"),
        ],
    },
    // Copies of tiles in a loop. A copy after the last row reads nothing.
    Kernel {
        is_slow: false,
        options: "grid = p.heads, requires(p.is_counted(), 4 * x.len() >= p.last() + 16)",
        functions: "
            fn is_counted(&self) -> bool {
                self.strides.iter().all(|stride| *stride % 16 == 0) && self.heads < 65536 && self.tokens > 0 && self.tokens < 1 << 29 }
            fn last(&self) -> u64 { u64::from(self.tokens - 1) * self.strides[0] + u64::from(self.heads - 1) * self.strides[1] }",
        body: "
            #[shared(align = 16)] let tile: [u32; 128];
            let len: u32 = p.tokens.min(p.batch);
            let mut block: u32 = 0;
            while block < (len + 31) / 32 {
                let row: u32 = block * 32;
                let left: u32 = len.max(row) - row;
                let inside: pred = tid.x < left;
                let from: u64 = x + p.strides[1] * ctaid.x as u64 + (row + tid.x) as u64 * p.strides[0];
                cp_async::copy16_zero(tile + tid.x * 16, from, inside.select(16, 0));
                cp_async::commit();
                cp_async::wait::<0>();
                block::sync();
                block += 1;
            }",
        mutants: &[
            ("p.last() + 16", "p.last() + 12"),
            ("tid.x < left", "tid.x <= left"),
            ("len.max(row) - row", "len.max(row) - row + 1"),
            ("inside.select(16, 0)", "inside.select(16, 16)"),
            ("p.tokens.min(p.batch)", "p.tokens.max(p.batch)"),
        ],
    },
    // Blocks have parts of the tokens, and warps chunks of their rows: a quotient stays below the tokens of the part, whose products the launch limits.
    Kernel {
        is_slow: false,
        options: "grid = p.batch, requires(p.is_counted(), x.len() >= p.tokens)",
        functions: "
            fn is_counted(&self) -> bool {
                self.batch >= 1 && self.batch <= 96 && self.heads >= 1 && self.heads < 1 << 28 && self.tokens < 1 << 30
                    && u64::from(self.tokens) * u64::from(self.heads.div_ceil(128)) <= 1 << 31 }",
        body: "
            let each: u32 = (p.tokens + p.batch - 1) / p.batch;
            let first: u32 = (ctaid.x * each).min(p.tokens);
            let last: u32 = (first + each).min(p.tokens);
            let chunks: u32 = (p.heads + 127) / 128;
            let (mut at, end): (u32, u32) = (tid.x, (last - first) * chunks);
            while at < end {
                let to = x.at(first + at / chunks);
                ptx! { st.global.f32 [to], 0.0; }
                at += 32;
            }",
        mutants: &[
            ("at < end", "at <= end"),
            ("x.len() >= p.tokens", "x.len() + 1 >= p.tokens"),
            ("(last - first) * chunks)", "(last - first) * (chunks + 1))"),
            ("(first + each).min(p.tokens)", "first + each"),
        ],
    },
    // Each token has several choices: a quotient stays below products of the part.
    Kernel {
        is_slow: false,
        options: "grid = p.batch, requires(p.is_counted(), p.covers(x.len()))",
        functions: "
            fn covers(&self, len: u64) -> bool { len >= u64::from(self.tokens) * u64::from(self.variable) }
            fn is_counted(&self) -> bool {
                self.batch >= 1 && self.batch <= 96 && self.heads >= 1 && self.heads < 1 << 28 && self.variable >= 1
                    && u64::from(self.tokens) * u64::from(self.variable) <= 1 << 30
                    && u64::from(self.tokens) * u64::from(self.variable) * u64::from(self.heads.div_ceil(128)) <= 1 << 31 }",
        body: "
            let each: u32 = (p.tokens + p.batch - 1) / p.batch;
            let first: u32 = (ctaid.x * each).min(p.tokens);
            let last: u32 = (first + each).min(p.tokens);
            let chunks: u32 = (p.heads + 127) / 128;
            let start: u32 = first * p.variable;
            let (mut at, end): (u32, u32) = (tid.x, (last * p.variable - start) * chunks);
            while at < end {
                let to = x.at(start + at / chunks);
                ptx! { st.global.f32 [to], 0.0; }
                at += 32;
            }",
        mutants: &[
            ("at < end", "at <= end"),
            ("start + at / chunks", "start + at / chunks + 1"),
            ("(first + each).min(p.tokens)", "first + each"),
            ("{ len >= u64", "{ len + 1 >= u64"),
            ("first * p.variable", "first * (p.variable + 1)"),
        ],
    },
];

/// The error of a kernel that is not proved.
fn error(kernel: &Kernel, (old, new): (&str, &str)) -> Option<String> {
    let Kernel { options, functions, body, .. } = kernel;
    let text = format!(
        "#[derive(KernelParam)] #[repr(C)]
         struct P {{ strides: [u64; 3], variable: u32, batch: u32, heads: u32, tokens: u32 }}
         #[ptx_contract] impl P {{ {functions} }}
         #[ptx_kernel(arch = \"sm_90\", params(P), block = 32, {options}, proved(bounds))]
         pub fn k(#[align(16)] x: &mut [f32], p: P) {{ {body} }}"
    );
    assert!(old.is_empty() || text.contains(old), "{old}");
    let text = if old.is_empty() { text } else { text.replacen(old, new, 1) };
    Source::text("k.rs", &text).compile().err().map(|error| error.to_string())
}

/// The first mutant of each kernel that is quickly proved; with `PTX_THOROUGH=1` all mutants of all kernels.
#[test]
fn offsets_are_compared_by_strides() {
    let tried = if is_thorough() { usize::MAX } else { 1 };
    for kernel in KERNELS.iter().filter(|kernel| is_thorough() || !kernel.is_slow) {
        assert_eq!(error(kernel, ("", "")), None, "{}", kernel.body);
        for mutant in kernel.mutants.iter().take(tried) {
            let error = error(kernel, *mutant).unwrap_or_else(|| panic!("proved: {mutant:?}"));
            assert!(error.contains("bounds are not decided") || error.contains("[P09"), "{mutant:?}\n{error}");
        }
    }
}
