//! Names that Rust does not have, or has for itself: of entries, of parameters, of variables.
use libtest_mimic::Trial;
use ptx_launch::prelude::*;

pub fn trials() -> Vec<Trial> {
    vec![
        super::passes!(entries_are_called_as_rust_can_write_them),
        super::passes!(a_signature_stands_in_front_of_a_text),
        super::passes!(keywords_are_names_of_parameters),
        super::passes!(variables_may_be_called_like_types),
        super::assembles("keywords::PTX", keywords::PTX),
        super::assembles("types::PTX", types::PTX),
        super::assembles("typed::PTX", typed::PTX),
        super::assembles("documented::PTX", documented::PTX),
    ]
}

mod from_file {
    use ptx_launch::prelude::*;

    ptx_file!("names.ptx");
}

#[allow(non_snake_case, reason = "mangled names")]
mod signed {
    use ptx_launch::prelude::*;

    ptx_file!("names.ptx",
        pub fn _Z5scalePfi(x: &mut [f32], n: i32),
        pub fn r#match(r#type: u32, r#in: i32, this: f32),
        pub fn a_b_1(first: u32, second: u32));
}

fn entries_are_called_as_rust_can_write_them() {
    assert_eq!(from_file::_Z5scalePfi::KERNEL.entry, "_Z5scalePfi");
    assert_eq!(from_file::_match::KERNEL.entry, "match");
    assert_eq!((from_file::a_b::KERNEL.entry, from_file::a_b_1::KERNEL.entry), ("a_b", "a$b"));
    assert_eq!(signed::r#match::KERNEL.entry, "match");
    assert_eq!((signed::a_b::KERNEL.entry, signed::a_b_1::KERNEL.entry), ("a_b", "a$b"));
    assert!(from_file::a_b::PTX.starts_with("# 1 \"names.cu\"\n.version 7.0\n"));
    let launch = |device: &Device, config: Config, buffer: &mut Buffer<f32>| {
        // SAFETY: it is never called.
        unsafe {
            from_file::_match(device, config, 1, 2, 3)?;
            signed::_Z5scalePfi(device, config, buffer, -1)?;
            signed::r#match(device, config, 1, -2, 0.5)
        }
    };
    let _ = launch;
}

// What a Rust lexer takes for documentation is a comment of the text.
ptx! {
    /** Made by hand. */
    .version 7.0
    .target sm_80
    .address_size 64

    .visible .entry documented() { ret; }
}

ptx! {
    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(x.len() >= 32)))]
    pub fn typed(x: &mut [f32], factor: f32);
    // A comment that stays.
    .version 7.0
    .target sm_80
    .address_size 64

    .visible .entry typed(.param .u64 x, .param .f32 factor)
    {
        ret;
    }
}

fn a_signature_stands_in_front_of_a_text() {
    assert!(typed::PTX.starts_with("\n    // A comment that stays.\n    .version 7.0\n"), "{}", typed::PTX);
    let device = Device::cpu();
    let mut x = device.zeros::<f32>(32).unwrap();
    typed(&device, &mut x, 2.0).unwrap();
}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(r#in.len() >= 1)))]
fn keywords(r#type: u32, r#in: &mut [u32], r#match: u32) {
    let mut r#loop: u32 = r#type + r#match;
    ptx! {
        add.u32         loop, loop, type;
        st.global.u32   [in], loop;
    }
}

fn keywords_are_names_of_parameters() {
    let device = Device::cpu();
    let mut out = device.zeros::<u32>(1).unwrap();
    keywords(&device, 3, &mut out, 4).unwrap();
    assert_eq!(out.download().unwrap(), [10]);
}

// `e4m3` is a type that declares no registers; two variables of that name once took names for ever.
#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(out.len() >= 1)))]
#[allow(unused_variables)]
fn types(out: &mut [u32]) {
    let e4m3: u32 = 1;
    {
        let e4m3: u32 = 2;
        let texref: u32 = e4m3;
        let u32_: u32 = texref + 1;
        out_of(out, u32_);
    }
    fn out_of(to: u64, value: u32) {
        let e4m3: u32 = value;
        ptx! { st.global.u32 [to], e4m3; }
    }
}

fn variables_may_be_called_like_types() {
    let device = Device::cpu();
    let mut out = device.zeros::<u32>(1).unwrap();
    types(&device, &mut out).unwrap();
    assert_eq!(out.download().unwrap(), [3]);
}
