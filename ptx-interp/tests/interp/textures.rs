//! Textures and surfaces: which texels a coordinate means, and what they are worth.

use crate::harness::{kernel, launch, program, words_at};
use ptx_interp::texture::{Channel, Filter, Outside, Texture};
use ptx_interp::{Fault, FaultKind, Machine, Options};

/// 4 by 3 floats: 0, 1, 2 …
fn floats(machine: &mut Machine) -> Texture {
    let bytes: Vec<u8> = (0..24u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    let address = machine.alloc(bytes.len() as u64).unwrap();
    machine.write(address, &bytes).unwrap();
    Texture {
        address,
        channel: Channel::F32,
        channels: 1,
        size: [4, 3, 1],
        layers: 0,
        array: false,
        pitch: 0,
        outside: [Outside::Clamp; 3],
        filter: Filter::Nearest,
        normalized: false,
    }
}

/// Runs a body of one thread, which has the texture's handle in `%d0` and stores words at `%out`.
fn run(change: impl FnOnce(&mut Texture), body: &str) -> Result<Vec<u32>, Fault> {
    let mut machine = Machine::new();
    let mut texture = floats(&mut machine);
    change(&mut texture);
    let handle = machine.texture(texture)?;
    let out = machine.alloc(64).unwrap();
    machine.write(out, &[0; 64]).unwrap();
    let program = program(&kernel(&format!("mov.u64 %d0, {handle}; {body} ret;")));
    launch(&mut machine, &program, 1, 1, &out.to_le_bytes(), Options::default())?;
    Ok(words_at(&machine, out, 16))
}

/// The first channel at x, y.
fn at(change: impl FnOnce(&mut Texture), x: f32, y: f32) -> f32 {
    let (x, y) = (x.to_bits(), y.to_bits());
    let body = format!(
        "mov.b32 %f1, {x}; mov.b32 %f2, {y}; tex.2d.v4.f32.f32 {{%f3, %f4, %f5, %f6}}, [%d0, {{%f1, %f2}}];
         st.global.f32 [%out], %f3;"
    );
    f32::from_bits(run(change, &body).unwrap()[0])
}

#[test]
fn the_texel_that_coordinates_are_in() {
    assert_eq!(at(|_| {}, 0.99, 0.0), 0.0);
    assert_eq!(at(|_| {}, 1.0, 2.5), 9.0);
    assert_eq!(at(|_| {}, -7.0, 99.0), 8.0);
    assert_eq!(at(|t| t.outside[0] = Outside::Border, -0.5, 1.0), 0.0);
    assert_eq!(at(|t| t.normalized = true, 0.5, 0.5), 6.0);
    assert_eq!(at(|t| (t.normalized, t.outside[0]) = (true, Outside::Wrap), -0.1, 0.0), 3.0);
    assert_eq!(at(|t| (t.normalized, t.outside[0]) = (true, Outside::Mirror), 1.1, 0.0), 3.0);
    assert_eq!(at(|t| t.pitch = 20, 0.0, 1.0), 5.0);
}

#[test]
fn texels_are_filtered_with_eight_bits() {
    let linear = |t: &mut Texture| t.filter = Filter::Linear;
    assert_eq!(at(linear, 0.5, 0.5), 0.0);
    assert_eq!(at(linear, 1.0, 1.0), (0.0 + 1.0 + 4.0 + 5.0) / 4.0);
    assert_eq!(at(linear, 0.5 + 1.0 / 1024.0, 0.5), 0.0);
    assert_eq!(at(linear, 0.5 + 1.0 / 256.0, 0.5), 1.0 / 256.0);
    assert_eq!(at(linear, -3.0, 0.5), 0.0);
}

#[test]
fn channels_mean_what_their_type_says() {
    let body = |ty: &str| {
        format!(
            "mov.u32 %r1, 0; tex.1d.v4.{ty}.s32 {{%r2, %r3, %r4, %r5}}, [%d0, {{%r1}}]; st.global.v4.u32 [%out], {{%r2, %r3, %r4, %r5}};"
        )
    };
    let change = |channel: Channel, channels: u32| {
        move |t: &mut Texture| {
            (t.channel, t.channels, t.size) = (channel, channels, [2, 1, 1]);
            t.address += 28;
        }
    };
    // 7.0 is 0x40e0_0000: bytes 0, 0, 0xe0, 0x40.
    assert_eq!(run(change(Channel::U8, 4), &body("u32")).unwrap()[..4], [0, 0, 0xe0, 0x40]);
    assert_eq!(run(change(Channel::S8, 4), &body("s32")).unwrap()[2], -32i32 as u32);
    assert_eq!(run(change(Channel::U16, 2), &body("u32")).unwrap()[..4], [0, 0x40e0, 0, 0]);
    let float = |channel, channels, at: usize| {
        f32::from_bits(
            run(
                change(channel, channels),
                &body("f32")
                    .replace("%r2", "%f2")
                    .replace("%r3", "%f3")
                    .replace("%r4", "%f4")
                    .replace("%r5", "%f5")
                    .replace("v4.u32", "v4.f32"),
            )
            .unwrap()[at],
        )
    };
    assert_eq!(float(Channel::Unorm8, 4, 2), (224.0f64 / 255.0) as f32);
    assert_eq!(float(Channel::Snorm8, 4, 2), (-32.0f64 / 127.0) as f32);
    assert_eq!(float(Channel::F16, 2, 1), 2.4375);
    assert_eq!(float(Channel::F32, 1, 3), 0.0);
}

#[test]
fn an_array_of_one_dimension_is_not_read_by_integers() {
    let fetch = |array: bool, ty: &str| {
        let line = move |t: &mut Texture| (t.array, t.size) = (array, [12, 1, 1]);
        let body = format!("mov.u32 %r1, 0; tex.1d.v4.f32.{ty} {{%f1, %f2, %f3, %f4}}, [%d0, {{%r1}}];");
        run(line, &body).map(|_| ())
    };
    assert!(fetch(false, "s32").is_ok() && fetch(true, "f32").is_ok());
    let error = fetch(true, "s32").unwrap_err();
    assert!(error.kind == FaultKind::BadAccess && error.to_string().contains("by `.f32` coordinates"), "{error}");
}

#[test]
fn layers_gathers_offsets_and_cubes() {
    let values = |change: fn(&mut Texture), instruction: &str| {
        let body = format!(
            "mov.f32 %f1, 0f3FC00000; mov.u32 %r1, 1; {instruction} st.global.v4.f32 [%out], {{%f3, %f4, %f5, %f6}};"
        );
        run(change, &body).unwrap()[..4].iter().map(|bits| f32::from_bits(*bits)).collect::<Vec<_>>()
    };
    let layered = |t: &mut Texture| t.layers = 2;
    assert_eq!(values(layered, "tex.a2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%d0, {%r1, %f1, %f1, %f1}];")[0], 17.0);
    assert_eq!(values(|_| {}, "tld4.r.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%d0, {%f1, %f1}];"), [9.0, 10.0, 6.0, 5.0]);
    assert_eq!(values(|_| {}, "tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%d0, {%f1, %f1}], {%r1, %r1};")[0], 10.0);
    let cube = |t: &mut Texture| (t.size, t.layers) = ([2, 2, 1], 6);
    // Mostly along +x, a little up and toward -z: the face's right upper quarter.
    let direction = "mov.f32 %f7, 0f3F000000; mov.f32 %f8, 0fBF000000;";
    let fetch = "tex.cube.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%d0, {%f1, %f7, %f8, %f8}];";
    assert_eq!(values(cube, &format!("{direction} {fetch}"))[0], 1.0);
}

#[test]
fn surfaces_are_bytes() {
    let body = "
  mov.u32 %r1, 4; mov.u32 %r2, 1; suld.b.2d.b32.trap %r3, [%d0, {%r1, %r2}]; st.global.u32 [%out], %r3;
  mov.u32 %r4, 99; suld.b.2d.b32.clamp %r3, [%d0, {%r4, %r4}]; st.global.u32 [%out+4], %r3;
  suld.b.2d.b32.zero %r3, [%d0, {%r4, %r4}]; st.global.u32 [%out+8], %r3;
  sust.b.2d.b32.trap [%d0, {%r1, %r2}], %r4; sured.b.add.2d.u32.trap [%d0, {%r1, %r2}], %r4;
  suld.b.2d.b32.trap %r3, [%d0, {%r1, %r2}]; st.global.u32 [%out+12], %r3;
  txq.width.b32 %r3, [%d0]; st.global.u32 [%out+16], %r3; suq.height.b32 %r3, [%d0]; st.global.u32 [%out+20], %r3;
  istypep.texref %p1, %d0; selp.u32 %r3, 1, 0, %p1; st.global.u32 [%out+24], %r3;";
    let found = run(|_| {}, body).unwrap();
    assert_eq!(found[..7], [5f32.to_bits(), 11f32.to_bits(), 0, 198, 4, 3, 1]);
    let beyond = run(|_| {}, "mov.u32 %r1, 16; suld.b.1d.b32.trap %r3, [%d0, {%r1}];").unwrap_err();
    assert_eq!(beyond.kind, FaultKind::OutOfBounds, "{beyond}");
    let unknown = run(|_| {}, "mov.u64 %d1, 3; txq.width.b32 %r3, [%d1];").unwrap_err();
    assert_eq!(unknown.kind, FaultKind::BadAccess, "{unknown}");
    assert_eq!(run(|t| t.size = [400, 1, 1], "").unwrap_err().kind, FaultKind::OutOfBounds);
}

#[test]
fn textures_are_bound_to_variables() {
    let text =
        kernel("mov.u32 %r1, 2; tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [t, {%r1}]; st.global.f32 [%out], %f1; ret;");
    let program = program(&text.replace(".visible .entry", ".global .texref t;\n.visible .entry"));
    let mut machine = Machine::new();
    let texture = floats(&mut machine);
    assert!(machine.bind(&program, "t", texture).unwrap());
    assert!(!machine.bind(&program, "u", texture).unwrap());
    let out = machine.alloc(4).unwrap();
    launch(&mut machine, &program, 1, 1, &out.to_le_bytes(), Options::default()).unwrap();
    assert_eq!(f32::from_bits(words_at(&machine, out, 1)[0]), 2.0);
}
