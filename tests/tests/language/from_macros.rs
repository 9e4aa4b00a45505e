//! Kernels that `macro_rules!` writes.
use libtest_mimic::Trial;
use ptx_launch::prelude::*;

pub fn trials() -> Vec<Trial> {
    vec![
        super::passes!(the_text_is_what_the_macro_expanded_to),
        super::assembles("negate::PTX", negate::PTX),
        super::assembles("invert::PTX", invert::PTX),
    ]
}

macro_rules! unary {
    ($name:ident, $op:ident, $ty:ident, $rust:ty) => {
        #[ptx_kernel(arch = "sm_80")]
        fn $name(x: &mut [$rust]) {
            let v: $rust;
            ptx! {
                ld.global.$ty v, [x];
                $op.$ty v, v;
                st.global.$ty [x], v;
            }
        }
    };
}
unary!(negate, neg, f32, f32);
unary!(invert, abs, s32, i32);

fn the_text_is_what_the_macro_expanded_to() {
    assert!(negate::PTX.contains("neg.f32 %v, %v;"), "{}", negate::PTX);
    assert!(invert::PTX.contains("abs.s32 %v, %v;"), "{}", invert::PTX);
}
